import { expect, test } from 'vitest'
import { nearest } from '../../src/basics/nearest.ts'

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
