import { describe, expect } from 'vitest'
import { createSluice, type Sluice } from '../../../src/sluice.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { put, test } from '../../support/sluice.ts'

type Call = (sluice: Sluice, queue: string) => Promise<unknown>

const calls: readonly (readonly [string, Call, expected: unknown])[] = [
  ['a claim', async (sluice, queue) => (await sluice.claim(queue))?.messages.map(({ payload }) => payload), [1]],
  ['a pop', async (sluice, queue) => (await sluice.pop(queue)).map(({ payload }) => payload), [1]],
  ['an enqueue', async (sluice, queue) => (await put(sluice, queue, [2])).length, 1],
  [
    'a look at a queue',
    (sluice, queue) => sluice.operate.queues.list({ queue }),
    [expect.objectContaining({ ready: 1 })],
  ],
  ['a redrive', (sluice, queue) => sluice.operate.deadLetters.redrive({ queue }), 0],
]

describe('a call that has begun before stop()', () => {
  test.for(calls)('ends as if there were none: %s', async ([, call, expected], { database, queue }) => {
    const sluice = createSluice({ connection: database.url, log: false })
    await put(sluice, queue, [1])
    const called = call(sluice, queue)
    await sluice.stop()
    expect(await called).toEqual(expected)
    await expect(call(sluice, queue)).rejects.toMatchObject({ code: 'STOPPED' })
  })

  test.for(calls)('ends also if it is the first one to connect: %s', async ([, call], { database, queue }) => {
    const sluice = createSluice({ connection: database.url, log: false })
    const called = call(sluice, queue)
    await sluice.stop()
    await called
  })

  test('ends also if it waits for its turn', async ({ database, queue }) => {
    const sluice = createSluice({ connection: database.url, log: false })
    const many = Array.from({ length: 30 }, (_, n) => n)
    await put(sluice, queue, many)
    const claim = await sluice.claim(queue, { limit: 30 })
    const looks = many.map(() => sluice.operate.queues.names())
    const settled = claim?.messages.map((message) => claim.settle(message))
    await sluice.stop()
    await Promise.all([...looks, ...(settled ?? [])])
    expect(await payloadsOf(database, queue)).toEqual([])
  })
})

describe('a claim in hand', () => {
  test('is settled, renewed and released after the stop, and leaves no connection', async ({ database, queue }) => {
    const name = `job of ${queue}`
    const sluice = createSluice({ connection: { connectionString: database.url, application_name: name }, log: false })
    await put(sluice, queue, [1, 2, 3])
    {
      await using claim = await sluice.claim(queue)
      const [first, second] = claim?.messages ?? []
      const began = claim?.settle(first!)
      await sluice.stop()
      expect(await began).toEqual({ settled: [first!.id], refused: [] })
      expect(await claim?.settle(second!)).toEqual({ settled: [second!.id], refused: [] })
      expect(await claim?.renew('5m')).toBeInstanceOf(Date)
      await expect(sluice.claim(queue)).rejects.toMatchObject({ code: 'STOPPED' })
    }
    await untilSessions(database, name, 0)
    expect(await database.sql('SELECT payload FROM sluice.messages WHERE queue = $1', [queue])).toEqual([
      { payload: 3 },
    ])
    expect(await database.sql('SELECT FROM sluice.claims WHERE queue = $1', [queue])).toEqual([])
  })
})
