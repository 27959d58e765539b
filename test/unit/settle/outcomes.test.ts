import { deepStrictEqual } from 'node:assert/strict'
import { test } from 'vitest'
import { deadLetter, retryLater } from '../../../src/index.ts'
import { OUTCOMES } from '../../../src/outcomes.ts'

test('an outcome has only the keys that were given, so that a strict comparison holds', () => {
  deepStrictEqual(deadLetter('card expired'), { kind: 'deadLetter', reason: 'card expired' })
  deepStrictEqual(deadLetter('card expired', 'no'), { kind: 'deadLetter', reason: 'card expired', error: 'no' })
  deepStrictEqual(retryLater(), { kind: 'retryLater' })
  deepStrictEqual(retryLater({ after: '1s', error: 'busy' }), { kind: 'retryLater', afterMs: 1_000, error: 'busy' })
})

test('a dead letter has a reason, also where an empty one was given, or one of spaces', () => {
  const outcome = { kind: 'deadLetter', reason: 'no reason given' }
  for (const empty of ['', ' ', '\n\t ']) deepStrictEqual(deadLetter(empty), outcome)
  deepStrictEqual(OUTCOMES.deadLetter.make('end', { reason: '' }), outcome)
})
