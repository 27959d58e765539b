import { describe, expect } from 'vitest'
import type { Receiver } from '../../../src/inbox/receiver.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { test as base } from '../../support/streams.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const test = base.extend('from', () => new MemoryReceiver())

const ONCE = { wait: '50ms' } as const

const receiptsOf = (database: TestDatabase, queue: string) =>
  database.sql('SELECT source, message_id FROM sluice.receipt r WHERE r.queue = $1 ORDER BY r.message_id', [queue])

describe('the source of a receipt', () => {
  test('is never another publisher’s name because a header of relays says so', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    from.deliver({ id: 'payments/evt_1', payload: 'forged', headers: { 'sluice-message-id': 'evt_1' } })
    await sluice.inbox(queue, { from, source: 'guests' }).runOnce(ONCE)
    expect(await receiptsOf(database, queue)).toEqual([{ source: 'guests', message_id: 'payments/evt_1' }])
  })

  test('is the database of an event that a relay has published for a group', async ({
    database,
    sluice,
    queue,
    stream,
    from,
  }) => {
    const to = new MemoryDestination()
    const position = await sluice.append(sluice.ownTransaction, stream, { n: 1 }, { type: 'event' })
    await sluice.relay({ stream, group: 'all' }, { to }).runOnce()
    from.deliver(...to.stored)
    expect(await sluice.inbox(queue, { from }).runOnce(ONCE)).toMatchObject({ enqueued: 1 })
    const [source] = await database.sql<{ id: string }>('SELECT id FROM sluice.source')
    expect(await receiptsOf(database, queue)).toEqual([{ source: source?.id, message_id: `${stream}/${position}` }])
    const stored = 'SELECT payload, type, headers FROM sluice.message WHERE queue = $1'
    expect(await database.sql(stored, [queue])).toEqual([{ payload: { n: 1 }, type: 'event', headers: {} }])
  })
})

describe('a receiver that does not do what it must', () => {
  test('fails each ack: the waits between two tries grow, and it is unavailable since the first one, although it can be reached each time', async ({
    sluice,
    queue,
    log,
    from,
  }) => {
    from.onAck = () => Promise.reject(new Error('no right to ack'))
    from.deliver({ id: 'a', payload: 1 })
    const running = sluice.inbox(queue, { from, breaker: { delay: '10ms', maxDelay: '1h' } }).start()
    await waitFor(() => log.of('inbox.unavailable').length >= 5, { what: 'five tries' })
    await running.drain()
    // Half of the fifth wait, and less than all of the third one.
    expect(log.of('inbox.unavailable')[4]?.retryInMs).toBeGreaterThanOrEqual(80)
    expect(new Set(log.of('inbox.unavailable').map(({ since }) => since.getTime())).size).toBe(1)
    expect(log.of('inbox.available')).toEqual([])
  })

  test('a runOnce whose receiver hangs does not hold up the stop of the Sluice', async ({ database, queue }) => {
    const sluice = startTestSluice(database)
    const receiving = deferred<void>()
    const over = deferred<void>()
    const from: Receiver = {
      system: 'deaf',
      open: async () => ({
        receive: async () => {
          receiving.resolve()
          await over.promise
          return []
        },
        ack: async () => undefined,
        close: async () => undefined,
      }),
    }
    const once = sluice.inbox(queue, { from }).runOnce(ONCE)
    await receiving.promise
    await sluice.stop({ timeout: '50ms' })
    over.resolve()
    expect(await once).toEqual({ enqueued: 0, duplicates: 0, dead: 0 })
  })

  test.for(['run', 'runOnce'] as const)('is closed when it makes %s fail', async (way, { sluice, queue }) => {
    let connections = 0
    const from: Receiver = {
      system: 'broken',
      open: async () => {
        connections += 1
        return {
          receive: async () => undefined as never,
          ack: async () => undefined,
          close: async () => {
            connections -= 1
          },
        }
      },
    }
    const inbox = sluice.inbox(queue, { from })
    await expect(way === 'run' ? inbox.start().ended : inbox.runOnce(ONCE)).rejects.toThrow(TypeError)
    expect(connections).toBe(0)
  })
})

test('a read that returns a promise is refused: what it says would be ignored', async ({
  database,
  sluice,
  queue,
  from,
}) => {
  from.deliver({ id: 'a', payload: 1 })
  const read = async () => ({ id: 'b' })
  expect(await sluice.inbox(queue, { from, read: read as never }).runOnce(ONCE)).toMatchObject({ dead: 1 })
  const letters = await database.sql('SELECT reason FROM sluice.dead_letter WHERE queue = $1', [queue])
  expect(letters).toEqual([{ reason: expect.stringContaining('read: expected an object') }])
})
