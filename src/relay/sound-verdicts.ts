import { errorText } from '../errors.ts'
import type { Verdict } from './destination.ts'

/** The verdicts that an adapter has given for so many messages. What is no verdict is `unavailable`, and an error becomes text. */
export function soundVerdicts(given: unknown, expected: number): readonly Verdict[] {
  if (Array.isArray(given) && given.length === expected) return Array.from(given, soundVerdict)
  return Array.from({ length: expected }, () => NO_VERDICT)
}

function soundVerdict(given: unknown): Verdict {
  if (!isVerdict(given)) return NO_VERDICT
  if (given.kind === 'confirmed' || typeof given.error === 'string') return given
  return { ...given, error: errorText(given.error) }
}

/** Of its error nothing is known. */
function isVerdict(given: unknown): given is Verdict {
  return typeof given === 'object' && given !== null && 'kind' in given && KINDS.has(given.kind)
}

const KINDS: ReadonlySet<unknown> = new Set<Verdict['kind']>(['confirmed', 'refused', 'failed', 'unavailable'])
const NO_VERDICT: Verdict = { kind: 'unavailable', error: 'expected one verdict for each message' }
