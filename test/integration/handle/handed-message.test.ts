import { inspect } from 'node:util'
import { expect } from 'vitest'
import type { Message } from '../../../src/index.ts'
import { put, test } from '../../support/sluice.ts'

test('a message is a plain object to a spread, structuredClone, JSON and console.log', async ({ sluice, queue }) => {
  const [id] = await put(sluice, queue, [{ a: [1] }], {
    type: 'a.b',
    schemaVersion: 2,
    headers: { trace: 't' },
    orderingKey: 'k',
    priority: 3,
    maxAttempts: 4,
  })
  let message: Message | undefined
  const [settled] = await sluice
    .pipeline(queue)
    .handle((given) => {
      message = given
    })
    .runOnce()
  if (message === undefined) throw new Error('expected a message')
  const all = {
    id,
    queue,
    stream: null,
    position: null,
    type: 'a.b',
    schemaVersion: 2,
    payload: { a: [1] },
    headers: { trace: 't' },
    orderingKey: 'k',
    priority: 3,
    attempt: 1,
    maxAttempts: 4,
    tenant: null,
    dedupeKey: null,
    enqueuedAt: expect.any(Date),
    dueAt: expect.any(Date),
    expiresAt: null,
  }
  expect({ ...message }).toStrictEqual(all)
  expect(Object.keys(message)).toEqual(Object.keys(all))
  expect(structuredClone(message)).toStrictEqual(all)
  expect(JSON.parse(JSON.stringify(message))).toEqual({
    ...all,
    enqueuedAt: message.enqueuedAt.toJSON(),
    dueAt: message.dueAt.toJSON(),
  })
  expect(inspect(message)).toBe(inspect({ ...message }))
  expect(settled?.message).toBe(message)
})

test('what a handler writes to its message changes nothing for the queue', async ({ database, sluice, queue }) => {
  const [first, second] = await put(sluice, queue, [1, 2])
  await sluice
    .pipeline(queue)
    .handle((message) => {
      if (message.id !== first) return { kind: 'retryLater', afterMs: 3_600_000 }
      Object.assign(message, { id: second, attempt: 7, queue: 'other', orderingKey: 'k' })
      return { kind: 'ack' }
    })
    .runOnce()
  expect(await database.sql('SELECT id::text, attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([
    { id: second, attempt: 1 },
  ])
})

test.for([
  ['with headers', { trace: 't' }],
  ['without headers', {}],
] as const)('a handler may write to each property of a message %s', async ([, headers], { sluice, queue }) => {
  await put(sluice, queue, [{ a: 1 }], { headers })
  let written: object | undefined
  let read: object | undefined
  const settled = await sluice
    .pipeline(queue)
    .handle((message) => {
      written = Object.fromEntries(Object.keys(message).map((name) => [name, `my ${name}`]))
      Object.assign(message, written)
      read = { ...message }
    })
    .runOnce()
  expect(settled).toMatchObject([{ outcome: { kind: 'ack' } }])
  expect(read).toStrictEqual(written)
  expect(Object.keys(read ?? {})).toHaveLength(17)
})
