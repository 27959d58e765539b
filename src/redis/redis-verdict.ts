import type { OutgoingMessage, Verdict } from '../relay/destination.ts'
import type { Target } from '../relay/target.ts'
import { unavailable } from '../relay/unavailable.ts'
import { BEHIND, STORED } from './publish-script.ts'
import { withRemedy } from './remedy.ts'

/** What the script's answer for a message says. */
export function verdictOf(answer: string, outgoing: OutgoingMessage, stream: Target): Verdict {
  if (answer === STORED) return CONFIRMED
  if (answer === BEHIND) return STAYS_BEHIND
  if (/^WRONGTYPE\b/.test(answer)) return stream.closed(outgoing, withRemedy(answer))
  // Of a command with its arguments, as where the entry is too large.
  if (/^ERR\b/.test(answer)) return { kind: 'failed', error: stream.named(outgoing, answer) }
  // All others, such as OOM, READONLY, NOREPLICAS and MISCONF, are the server's, and so is NOPERM for a command.
  return unavailable(withRemedy(answer))
}

/** The login may not use one of the keys, or not run scripts. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOPERM')
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const STAYS_BEHIND: Verdict = { kind: 'unavailable', error: 'the message before it of its key was not stored' }
