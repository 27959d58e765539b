import { expect, test } from 'vitest'
import { nearest } from '../../../src/basics/words/nearest.ts'

test.each([
  ['delayMs', ['type', 'delay', 'dueAt'], ['delay']],
  ['priorty', ['priority'], ['priority']],
  ['DELAY', ['delay'], ['delay']],
  ['emial', ['orders', 'email', 'sms'], ['email']],
  ['key', ['orderingKey', 'type'], ['orderingKey']],
  ['unrelated', ['type', 'delay'], []],
  ['a', [], []],
])('nearest to %s of %j: %j', (word, words, expected) => {
  expect(nearest(word, words)).toEqual(expected)
})

test('nothing is near to a word of a megabyte, which is not compared letter by letter', () => {
  expect(nearest('priority'.repeat(125_000), ['priority', 'p'.repeat(100)])).toEqual([])
})
