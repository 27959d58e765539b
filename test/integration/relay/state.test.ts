import { describe, expect, onTestFinished, vi } from 'vitest'
import { migrate } from '../../../src/migrate/migrate.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { EventLog } from '../../support/event-log.ts'
import { reasonOf, words } from '../../support/explain/reasons.ts'
import { found } from '../../support/rows/findings.ts'
import { register } from '../../support/rows/operations.ts'
import { createTestDatabase, type TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const HINTS = {
  settings:
    'change what the error says; after a change of its options restart the worker, else the relay goes on by itself',
  outage: 'check that the destination runs and that the worker can reach it; the relay then goes on by itself',
} as const

/** A worker whose heartbeats soon tell what is new. */
const test = base
  .extend('to', () => new MemoryDestination())
  .extend('sluice', ({ database, queue }) => startTestSluice(database, { name: `w.${queue}`, pollInterval: '100ms' }))

const OFTEN = { delay: '10ms', maxDelay: '20ms' } as const
const NEVER = { delay: '1h', maxDelay: '1h' } as const

interface Row {
  readonly worker: string
  readonly destination: string
  readonly state: string
  readonly since: Date
  readonly cause: string | null
  readonly error: string | null
  readonly retry_at: Date | null
}

const relaysOf = (database: TestDatabase, queue: string) =>
  database.sql<Row>(
    'SELECT worker, destination, state, since, cause, error, retry_at FROM sluice.relays WHERE queue = $1 ORDER BY worker_id',
    [queue],
  )

function untilRow(database: TestDatabase, queue: string, is: (row: Row) => boolean, what: string): Promise<Row> {
  return waitFor(async () => (await relaysOf(database, queue)).find(is), { what })
}

const isUnavailable = ({ state }: Row) => state === 'unavailable'

describe('a relay', () => {
  test('is in sluice.relays: available, unavailable as its event says, and available again, until it ends', async ({
    database,
    sluice,
    queue,
    log,
    to,
  }) => {
    const running = sluice.relay(queue, { to, breaker: OFTEN }).start()
    const before = await untilRow(database, queue, () => true, 'the first state')
    expect(before).toMatchObject({ worker: `w.${queue}`, destination: 'memory', state: 'available', retry_at: null })
    to.answer = () => ({ kind: 'unavailable', error: 'no leader' })
    await put(sluice, queue, [1])
    const row = await untilRow(database, queue, isUnavailable, 'the outage')
    const { since } = await log.first('relay.unavailable')
    expect(row).toMatchObject({ cause: 'outage', error: 'no leader', since, retry_at: expect.any(Date) })
    to.answer = () => ({ kind: 'confirmed' })
    const after = await untilRow(database, queue, (one) => !isUnavailable(one), 'its end')
    expect(after).toMatchObject({ state: 'available', cause: null, error: null, retry_at: null })
    expect(after.since.getTime()).toBeGreaterThanOrEqual(since.getTime())
    await running.drain()
    await waitFor(async () => (await relaysOf(database, queue)).length === 0, { what: 'the row to go' })
  })

  test('says when the cause changes, and is unavailable since the first one', async ({
    database,
    sluice,
    queue,
    log,
    to,
  }) => {
    to.answer = () => ({ kind: 'unavailable', error: 'no leader' })
    await put(sluice, queue, [1])
    const running = sluice.relay(queue, { to, breaker: OFTEN }).start()
    const { since } = await untilRow(database, queue, ({ cause }) => cause === 'outage', 'the outage')
    to.answer = () => ({ kind: 'unavailable', cause: 'settings', error: 'no permission' })
    const row = await untilRow(database, queue, ({ cause }) => cause === 'settings', 'the setting')
    expect(row).toMatchObject({ error: 'no permission', since })
    expect(await log.first('relay.unavailable', ({ cause }) => cause === 'settings')).toMatchObject({ since })
    to.reachable = false
    const unreached = await log.first('relay.unavailable', ({ error }) => error === 'out of reach')
    expect(unreached).toMatchObject({ cause: 'outage', since })
    expect(log.of('relay.available')).toEqual([])
    await running.drain()
  })

  test('is not in sluice.relays when its trial finds no message: another worker may have published it', async ({
    database,
    sluice,
    queue,
    log,
    to,
  }) => {
    to.answer = () => ({ kind: 'unavailable', error: 'no leader' })
    const [id = ''] = await put(sluice, queue, [1])
    const running = sluice.relay(queue, { to, breaker: OFTEN }).start()
    await untilRow(database, queue, isUnavailable, 'the outage')
    await database.sql('DELETE FROM sluice.message WHERE id = $1::bigint', [id])
    await waitFor(async () => (await relaysOf(database, queue)).length === 0, { what: 'the row to go' })
    expect(log.of('relay.available')).toEqual([])
    await put(sluice, queue, [2])
    await untilRow(database, queue, isUnavailable, 'the outage, by the next message')
    to.answer = () => ({ kind: 'confirmed' })
    await untilRow(database, queue, (row) => !isUnavailable(row), 'its end')
    await running.drain()
  })

  test('shows of two relays of a queue in one process the one that is out of reach', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    const broken = new MemoryDestination()
    broken.reachable = false
    sluice.relay(queue, { to }).start()
    sluice.relay(queue, { to: broken, breaker: NEVER }).start()
    expect(await untilRow(database, queue, isUnavailable, 'the outage')).toMatchObject({ error: 'out of reach' })
    expect(await relaysOf(database, queue)).toHaveLength(1)
  })

  test('keeps its heartbeat, whatever its adapter says, in a database that cannot hold it', async ({ queue, to }) => {
    const database = await createTestDatabase({ encoding: 'LATIN1' })
    onTestFinished(() => database[Symbol.asyncDispose]())
    await migrate(database.url)
    const sluice = startTestSluice(database, { pollInterval: '100ms' })
    const log = new EventLog(sluice.events)
    to.answer = () => ({ kind: 'unavailable', error: `no 💥\0\ud800${'long'.repeat(10_000)}` })
    await put(sluice, queue, [1])
    sluice.relay(queue, { to, breaker: NEVER }).start()
    const { error } = await untilRow(database, queue, isUnavailable, 'the outage')
    expect(error).toMatch(/^no \\u\{1f4a5\}\\u\{fffd\}\\u\{fffd\}longlong/)
    expect(error?.length).toBeLessThan(1_100)
    expect(log.of('connection.lost')).toEqual([])
  })
})

describe('sluice.relays', () => {
  const down = { sinceMs: Date.now(), system: 'memory', error: 'no leader', retryAtMs: Date.now() }
  const note = (database: TestDatabase, name: string, statistics: unknown) =>
    database.sql('UPDATE sluice.worker SET statistics = $2::text::jsonb WHERE name = $1', [
      name,
      JSON.stringify(statistics),
    ])

  test('has no row of a worker that is gone, or hangs', async ({ database, queue }) => {
    await register(database, { name: `gone.${queue}`, queues: [queue], alive: false })
    await register(database, { name: `alive.${queue}`, queues: [queue], alive: true })
    for (const name of ['gone', 'alive']) await note(database, `${name}.${queue}`, { [queue]: { relay: down } })
    expect((await relaysOf(database, queue)).map(({ worker }) => worker)).toEqual([`alive.${queue}`])
    await database.sql(
      `UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '2 minutes' WHERE queues = $1`,
      [[queue]],
    )
    expect(await relaysOf(database, queue)).toEqual([])
  })

  test('is not broken by what a login may write into its row', async ({ database, queue }) => {
    await register(database, { name: queue, queues: [queue], alive: true })
    const odd = [
      1,
      'x',
      [],
      {},
      { sinceMs: '1' },
      { sinceMs: [1] },
      { sinceMs: -1 },
      { sinceMs: 1e300 },
      { sinceMs: {} },
    ]
    for (const statistics of [1, 'x', [], ...odd.map((relay) => ({ [queue]: { relay } })), { [queue]: 1 }]) {
      await note(database, queue, statistics)
      expect(await relaysOf(database, queue), JSON.stringify(statistics)).toEqual([])
    }
    await note(database, queue, { [queue]: { relay: { sinceMs: 1, cause: 'x', error: { a: 1 }, retryAtMs: 'soon' } } })
    expect(await relaysOf(database, queue)).toMatchObject([
      { destination: null, cause: 'outage', error: '{"a": 1}', retry_at: null },
    ])
  })
})

describe('while no relay of a queue reaches its destination', () => {
  test('explain says so of the queue and its messages, and no longer when one does', async ({
    database,
    sluice,
    queue,
    to,
  }) => {
    to.answer = () => ({ kind: 'unavailable', cause: 'settings', error: 'no permission' })
    const [id = ''] = await put(sluice, queue, [1])
    const running = sluice.relay(queue, { to, breaker: NEVER }).start()
    const { since } = await untilRow(database, queue, isUnavailable, 'the outage')
    const explained = await sluice.operate.messages.explain(queue, id)
    expect(explained.headline).toMatchObject({
      reason: 'destination_unavailable',
      explanation: expect.stringMatching(
        /^The relay of worker "w\.[^"]+" cannot publish to its destination, "memory", for \w+, now because of a setting: "no permission"\. It tries again in \d+m/,
      ),
      since,
      details: {
        worker: `w.${queue}`,
        destination: 'memory',
        cause: 'settings',
        error: 'no permission',
        retryAt: expect.any(String),
      },
      remedy: `SELECT * FROM sluice.relays WHERE queue = '${queue}'; -- ${HINTS.settings}`,
    })
    const ofQueue = await sluice.operate.queues.explain(queue)
    expect(words(ofQueue)).toEqual(['destination_unavailable', 'due_now'])
    expect(reasonOf(ofQueue, 'due_now').explanation).toMatch(/: no relay takes it before its destination is back\.$/)
    // Another worker publishes.
    await register(database, { name: `other.${queue}`, queues: [queue], alive: true })
    expect(words(await sluice.operate.messages.explain(queue, id))).not.toContain('destination_unavailable')
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['due_now'])
    await running.drain()
  })

  test.for(['settings', 'outage'] as const)(
    'status and the doctor find it after five minutes, and say what to do: %s',
    async (cause, { database, sluice, queue, to }) => {
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 360_000 })
      onTestFinished(() => void vi.useRealTimers())
      to.answer = () => ({ kind: 'unavailable', cause, error: 'no permission' })
      await put(sluice, queue, [1, 2])
      await database.sql(`UPDATE sluice.message SET due_at = due_at - interval '6 minutes' WHERE queue = $1`, [queue])
      sluice.relay(queue, { to, breaker: NEVER }).start()
      await untilRow(database, queue, isUnavailable, 'the outage')
      const because = cause === 'settings' ? ', now because of a setting' : ''
      const said = `relay of worker w\\.\\S+ cannot publish to its destination, memory, for 6m[^,]*${because}: no permission$`
      // The state may come before the COMMIT of the batch.
      await waitFor(async () => (await sluice.operate.status({ queue })).queues[0]?.ready === 2, {
        what: 'both messages',
      })
      const { attention, relays } = await sluice.operate.status({ queue })
      expect(relays).toMatchObject([{ queue, worker: `w.${queue}`, state: 'unavailable', cause }])
      expect(attention).toMatchObject([
        {
          kind: 'relays.unavailable',
          severity: 'wrong',
          subject: queue,
          messages: 2,
          text: expect.stringMatching(new RegExp(`^the ${said}`)),
          remedy: `npx sluice doctor # ${HINTS[cause]}`,
        },
      ])
      expect(await found(database, 'relays')).toMatchObject([
        {
          severity: 'error',
          subject: `queue ${queue}`,
          finding: expect.stringMatching(new RegExp(`^The ${said}`)),
          remedy: `SELECT * FROM sluice.relays; -- ${HINTS[cause]}`,
        },
      ])
    },
  )
})
