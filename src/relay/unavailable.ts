import { allWordsOf } from '../basics/all-words-of.ts'
import { unavailableCause } from '../basics/unavailable-cause.ts'
import type { Verdict } from './destination.ts'

/** The verdict where an error says nothing about the message, but why the destination is of no use. */
export function unavailable(thrown: unknown): Extract<Verdict, { readonly kind: 'unavailable' }> {
  return { kind: 'unavailable', error: allWordsOf(thrown), cause: unavailableCause(thrown) }
}
