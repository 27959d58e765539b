import { allWordsOf } from '../basics/errors/all-words-of.ts'
import { unavailableCause } from '../basics/errors/unavailable-cause.ts'
import type { Verdict } from './destination.ts'

/** The verdict where an error says nothing about the message, but why the destination is of no use. */
export function unavailable(thrown: unknown): Extract<Verdict, { readonly kind: 'unavailable' }> {
  return { kind: 'unavailable', error: allWordsOf(thrown), cause: unavailableCause(thrown) }
}
