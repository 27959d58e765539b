import { wordsOf } from '../basics/errors/words-of.ts'
import { withAdvice } from '../basics/words/sentences.ts'
import { isSluiceError, SluiceError } from '../errors.ts'

/** An error of the client, as OPTION_INVALID where the server answers, and waits for a change by hand. */
export function withRemedy(error: unknown): unknown {
  // It has one.
  if (isSluiceError(error)) return error
  const words = wordsOf(error)
  const remedy = REMEDIES.find(([answers]) => answers.test(words))?.[1]
  return remedy === undefined ? error : new SluiceError('OPTION_INVALID', withAdvice(words, remedy), { cause: error })
}

/** By how the server's answers begin. READONLY is none of these: it passes with a failover. */
const REMEDIES: readonly (readonly [answers: RegExp, remedy: string])[] = [
  [/^(WRONGPASS|NOAUTH|ERR AUTH|ERR invalid password)\b/, 'Correct the login in url or connection'],
  [/^NOPERM\b/, 'Permit it to the login, or correct the login in url or connection'],
  [/^NOGROUP\b/, 'Make the group, or correct the options stream and group'],
  [/^WRONGTYPE\b/, 'Name the key of a stream'],
  [/^(CROSSSLOT|MOVED)\b/, 'Name a server that is none of a Redis Cluster'],
  [/^ERR (DB index|invalid DB index)\b/, 'Correct the number of the database in url or connection'],
]
