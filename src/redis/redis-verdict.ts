import type { Verdict } from '../relay/destination.ts'
import { unavailable } from '../relay/unavailable.ts'
import { BEHIND, STORED } from './publish-script.ts'
import { withRemedy } from './remedy.ts'

/** What the script's answer for a message says. */
export function verdictOf(answer: string): Verdict {
  if (answer === STORED) return CONFIRMED
  if (answer === BEHIND) return STAYS_BEHIND
  return isOfMessage(answer) ? { kind: 'failed', error: answer } : unavailable(withRemedy(answer))
}

/** The login may not use one of the keys, or not run scripts. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOPERM')
}

/**
 * Errors of a command with its arguments: the key has a value of another type, or the entry is too large. All others, such as
 * OOM, READONLY, NOREPLICAS and MISCONF, are the server's, and so is NOPERM for a command.
 */
function isOfMessage(error: string): boolean {
  return /^(WRONGTYPE|ERR)\b/.test(error)
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const STAYS_BEHIND: Verdict = { kind: 'unavailable', error: 'the message before it of its key was not stored' }
