import { unavailableCause } from '../basics/unavailable-cause.ts'
import { errorText, isSluiceError } from '../errors.ts'
import type { Verdict } from './destination.ts'

/** What an error says, with its causes. Those of Sluice say all in their message. */
export function reasonOf(thrown: unknown): string {
  return isSluiceError(thrown) ? thrown.message : errorText(thrown)
}

/** The verdict where an error says nothing about the message, but why the destination is of no use. */
export function unavailable(thrown: unknown): Verdict {
  return { kind: 'unavailable', error: reasonOf(thrown), cause: unavailableCause(thrown) }
}
