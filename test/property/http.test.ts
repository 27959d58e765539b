import fc from 'fast-check'
import { expect } from 'vitest'
import { createHttpHandler } from '../../src/http.ts'
import { keepingContract } from '../support/http-contract.ts'
import { test } from '../support/sluice.ts'

/** Whatever comes: values of the right form, of another one, and what is no JSON. No claim waits. */
const value = fc.oneof(
  fc.jsonValue(),
  fc.integer(),
  fc.constantFrom('1s', '5m', '1', 'ack', 'retryLater', 'snooze', 'deadLetter'),
)
const names = [
  'payload',
  'type',
  'headers',
  'priority',
  'delay',
  'dueAt',
  'id',
  'outcome',
  'after',
  'reason',
  'error',
  '__proto__',
]
const message = fc.oneof(
  fc.dictionary(fc.constantFrom(...names), value, { maxKeys: 4 }),
  fc.record({ payload: fc.jsonValue() }),
  value,
)
const body = fc.oneof(
  fc.record({ messages: fc.oneof(fc.array(message, { maxLength: 3 }), value) }),
  fc.dictionary(fc.constantFrom('limit', 'lease', 'maxAttempts', 'messages', 'other'), value),
  value,
)
const text = fc.oneof(
  body.map((any) => JSON.stringify(any)),
  fc.string({ unit: 'binary' }),
)

test('no request makes a server error, and every answer is as the document says', async ({ sluice, queue, log }) => {
  const handler = keepingContract(createHttpHandler(sluice, { authorize: () => true }))
  const path = fc.oneof(
    fc.constantFrom('/messages', '/claims', '/pop', '', '/claims/1', '/claims/1/settle', '/claims/x/settle'),
    fc.webPath(),
  )
  const method = fc.constantFrom('GET', 'POST', 'PATCH', 'DELETE', 'PUT')
  const property = fc.asyncProperty(method, path, text, async (verb, rest, sent) => {
    const headers = { 'content-type': 'application/json' }
    const url = `https://example.com/queues/${queue}${rest}`
    const request = new Request(url, { method: verb, headers, ...(verb !== 'GET' && { body: sent }) })
    const answer = await handler(request)
    if (answer.status >= 500) throw new Error(`${answer.status}: ${await answer.text()}`)
  })
  await fc.assert(property, { numRuns: 1_000 })
  expect(log.of('request.failed')).toEqual([])
})
