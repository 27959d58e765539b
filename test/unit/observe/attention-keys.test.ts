import { expect, test } from 'vitest'
import { attentionToKeys } from '../../../src/operate/status/of-queues.ts'

test.for([
  [1, 1, /^1 due message of 1 ordering key waits; "a" longest, for message 7, which failed /],
  [2, 1, /^2 due messages of 1 ordering key wait; "a" longest, for message 7, which failed /],
])('%i due messages that are held by a failed one are counted in a sentence', ([messages, keys, words]) => {
  const held = { queue: 'orders', keys, messages, key: 'a', messageId: '7', failedAgoMs: 1_000, error: 'no card' }
  expect(attentionToKeys(held as Parameters<typeof attentionToKeys>[0]).text).toMatch(words as RegExp)
})
