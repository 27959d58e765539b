import { describe, expect, onTestFinished, vi } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import { fromNats } from '../../../src/nats/from-nats.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { words } from '../../support/explain/reasons.ts'
import { found } from '../../support/rows/findings.ts'
import { register } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as withLogins } from '../../support/servers/logins.ts'
import { addConsumer, startNats } from '../../support/servers/nats.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** A process without pipelines, whose heartbeats soon tell what is new. */
const test = base
  .extend('from', () => new MemoryReceiver())
  .extend('sluice', ({ database, queue }) => startTestSluice(database, { name: `w.${queue}`, pollInterval: '100ms' }))

const OFTEN = { delay: '10ms', maxDelay: '20ms' } as const
const NEVER = { delay: '1h', maxDelay: '1h' } as const

interface Row {
  readonly worker: string
  readonly receiver: string
  readonly state: string
  readonly side: string | null
  readonly since: Date
  readonly cause: string | null
  readonly error: string | null
  readonly retry_at: Date | null
}

const inboxesOf = (database: Pick<TestDatabase, 'sql'>, queue: string) =>
  database.sql<Row>(
    'SELECT worker, receiver, state, side, since, cause, error, retry_at FROM sluice.inboxes WHERE queue = $1 ORDER BY worker_id',
    [queue],
  )

function untilRow(database: TestDatabase, queue: string, is: (row: Row) => boolean, what: string): Promise<Row> {
  return waitFor(async () => (await inboxesOf(database, queue)).find(is), { what })
}

const isUnavailable = ({ state }: Row) => state === 'unavailable'
const isAvailable = ({ state }: Row) => state === 'available'
const AVAILABLE = { state: 'available', side: null, cause: null, error: null, retry_at: null } as const

/** As a broker that answers, and refuses. */
function refuse(from: MemoryReceiver): void {
  from.open = () => Promise.reject(new SluiceError('OPTION_INVALID', 'no such consumer'))
}

describe('an inbox', () => {
  test('is in sluice.inboxes: available, unavailable as its event says, and available again, until it ends', async ({
    database,
    sluice,
    queue,
    log,
    from,
  }) => {
    const running = sluice.inbox(queue, { from, breaker: OFTEN }).start()
    const before = await untilRow(database, queue, () => true, 'the first state')
    expect(before).toMatchObject({ worker: `w.${queue}`, receiver: 'memory', ...AVAILABLE })
    from.deliver({ id: '1', payload: 1 })
    await waitFor(() => from.acked.length === 1, { what: 'the ack' })
    from.reachable = false
    const row = await untilRow(database, queue, isUnavailable, 'the outage')
    const { since, error } = await log.first('inbox.unavailable')
    expect(row).toMatchObject({ side: 'receiver', cause: 'outage', error, since, retry_at: expect.any(Date) })
    from.reachable = true
    const after = await untilRow(database, queue, isAvailable, 'its end')
    expect(after).toMatchObject(AVAILABLE)
    expect(after.since.getTime()).toBeGreaterThanOrEqual(since.getTime())
    await running.drain()
    await waitFor(async () => (await inboxesOf(database, queue)).length === 0, { what: 'the row to go' })
  })

  test('is unavailable by the side of the database while it cannot store what it has received', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const running = sluice.inbox(queue, { from, breaker: OFTEN }).start()
    const before = await untilRow(database, queue, isAvailable, 'the first state')
    await database.sql('ALTER TABLE sluice.receipt RENAME TO receipt_away')
    try {
      from.deliver({ id: '1', payload: 1 })
      const row = await untilRow(database, queue, isUnavailable, 'what cannot be stored')
      expect(row).toMatchObject({ receiver: 'memory', side: 'database', cause: 'settings' })
      expect(row.error).toEqual(expect.any(String))
      const { headline } = await sluice.operate.queues.explain(queue)
      expect(headline.explanation).toContain(`cannot store what it has received from its broker, "memory", for `)
      expect(headline.remedy).toMatch(
        /; -- change what the error says; after a change of its options restart the worker, else the inbox goes on by itself$/,
      )
    } finally {
      await database.sql('ALTER TABLE sluice.receipt_away RENAME TO receipt')
    }
    const after = await untilRow(database, queue, isAvailable, 'its end')
    expect(after.since.getTime()).toBeGreaterThan(before.since.getTime())
    await running.drain()
  })

  test('is unavailable by the side of the database also while its receiver has not proved itself', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    let useless = 2
    const open = from.open.bind(from)
    from.open = async (...given) => {
      const connection = await open(...given)
      if (useless-- > 0) connection.receive = () => Promise.reject(new Error('reset'))
      return connection
    }
    await database.sql('ALTER TABLE sluice.receipt RENAME TO receipt_away')
    try {
      from.deliver({ id: '1', payload: 1 })
      sluice.inbox(queue, { from, breaker: OFTEN }).start()
      await untilRow(database, queue, ({ side }) => side === 'database', 'what cannot be stored')
    } finally {
      await database.sql('ALTER TABLE sluice.receipt_away RENAME TO receipt')
    }
    await untilRow(database, queue, isAvailable, 'its end')
  })

  test('shows of two inboxes of a queue in one process the one that cannot receive', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    const broken = new MemoryReceiver()
    refuse(broken)
    sluice.inbox(queue, { from }).start()
    sluice.inbox(queue, { from: broken, breaker: NEVER }).start()
    expect(await untilRow(database, queue, isUnavailable, 'the outage')).toMatchObject({
      cause: 'settings',
      error: 'no such consumer',
    })
    expect(await inboxesOf(database, queue)).toHaveLength(1)
  })

  test('is no consumer of its queue: it has no statistics of one, and the queue waits for a worker', async ({
    database,
    sluice,
    queue,
    from,
  }) => {
    sluice.inbox(queue, { from }).start()
    await untilRow(database, queue, isAvailable, 'the first state')
    expect(await database.sql('SELECT FROM sluice.worker_statistics WHERE queue = $1', [queue])).toEqual([])
    from.deliver({ id: '1', payload: 1 })
    await waitFor(() => from.acked.length === 1, { what: 'the ack' })
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['no_worker', 'due_now'])
  })

  test('of NATS is unavailable while its server is gone, and available when it is back', async ({
    database,
    sluice,
    queue,
    skip,
  }) => {
    const { server, manager } = await startNats(skip)
    await manager.streams.add({ name: 'shop', subjects: ['shop'] })
    await addConsumer(manager, 'shop', 'inbox')
    const from = fromNats({ servers: server.url, stream: 'shop', consumer: 'inbox' })
    const running = sluice.inbox(queue, { from, breaker: OFTEN }).start()
    await untilRow(database, queue, isAvailable, 'the first state')
    await server.kill()
    const row = await untilRow(database, queue, isUnavailable, 'the outage')
    expect(row).toMatchObject({ receiver: 'nats', side: 'receiver', cause: 'outage' })
    await server.run()
    await untilRow(database, queue, isAvailable, 'its end')
    await running.drain()
  })
})

describe('sluice.inboxes', () => {
  const down = { sinceMs: Date.now(), system: 'memory', side: 'receiver', error: 'no route', retryAtMs: Date.now() }
  const note = (database: TestDatabase, name: string, statistics: unknown) =>
    database.sql('UPDATE sluice.worker SET statistics = $2::text::jsonb WHERE name = $1', [
      name,
      JSON.stringify(statistics),
    ])

  test('has no row of a worker that is gone, or hangs', async ({ database, queue }) => {
    await register(database, { name: `gone.${queue}`, queues: [], alive: false })
    await register(database, { name: `alive.${queue}`, queues: [], alive: true })
    for (const name of ['gone', 'alive']) await note(database, `${name}.${queue}`, { [queue]: { inbox: down } })
    expect((await inboxesOf(database, queue)).map(({ worker }) => worker)).toEqual([`alive.${queue}`])
    await database.sql(`UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '2 minutes' WHERE name = $1`, [
      `alive.${queue}`,
    ])
    expect(await inboxesOf(database, queue)).toEqual([])
  })

  test('is not broken by what a login may write into its row', async ({ database, queue }) => {
    await register(database, { name: queue, queues: [], alive: true })
    const odd = [1, 'x', [], {}, { sinceMs: '1' }, { sinceMs: [1] }, { sinceMs: -1 }, { sinceMs: 1e300 }]
    for (const statistics of [1, 'x', [], ...odd.map((inbox) => ({ [queue]: { inbox } })), { [queue]: 1 }]) {
      await note(database, queue, statistics)
      expect(await inboxesOf(database, queue), JSON.stringify(statistics)).toEqual([])
    }
    await note(database, queue, {
      [queue]: { inbox: { sinceMs: 1, side: 1, cause: 'x', error: { a: 1 }, retryAtMs: 'soon' } },
    })
    expect(await inboxesOf(database, queue)).toMatchObject([
      { receiver: null, side: 'receiver', cause: 'outage', error: '{"a": 1}', retry_at: null },
    ])
  })

  withLogins.for(['sluice_reader', 'sluice_worker', 'sluice_operator', 'sluice_admin'] as const)(
    'is read by a login with the role %s',
    async (role, { database, login }) => {
      const reader = await login(role)
      const sluice = startTestSluice(database, { name: 'w', pollInterval: '100ms' })
      sluice.inbox(role, { from: new MemoryReceiver() }).start()
      const row = await untilRow(database, role, isAvailable, 'the first state')
      expect(await inboxesOf(reader, role)).toEqual([row])
    },
  )
})

describe('while no inbox of a queue can receive', () => {
  test.for([
    {
      cause: 'outage',
      fail: (from: MemoryReceiver) => {
        from.reachable = false
      },
      says: /^The inbox of worker "w\.[^"]+" cannot receive from its broker, "memory", for \w+: "[^"]*out of reach[^"]*"\. It tries again in \d+m/,
      hint: 'check that the broker runs and that the worker can reach it; the inbox then goes on by itself',
    },
    {
      cause: 'settings',
      fail: refuse,
      says: /^The inbox of worker "w\.[^"]+" cannot receive from its broker, "memory", for \w+, now because of a setting: "no such consumer"\. It tries again in \d+m/,
      hint: 'change what the error says; after a change of its options restart the worker, else the inbox goes on by itself',
    },
  ])(
    'explain says so of the queue, and what helps against $cause, and not of its messages',
    async ({ cause, fail, says, hint }, { database, sluice, queue, from }) => {
      fail(from)
      sluice.inbox(queue, { from, breaker: NEVER }).start()
      const { since } = await untilRow(database, queue, isUnavailable, 'the outage')
      const empty = await sluice.operate.queues.explain(queue)
      expect(words(empty)).toEqual(['inbox_unavailable', 'empty'])
      expect(empty.headline).toMatchObject({
        explanation: expect.stringMatching(says),
        since,
        details: { worker: `w.${queue}`, receiver: 'memory', side: 'receiver', cause, retryAt: expect.any(String) },
        remedy: `SELECT * FROM sluice.inboxes WHERE queue = '${queue}'; -- ${hint}`,
      })
      const [id = ''] = await put(sluice, queue, [1])
      expect(words(await sluice.operate.queues.explain(queue))).toEqual(['no_worker', 'due_now', 'inbox_unavailable'])
      expect(words(await sluice.operate.messages.explain(queue, id))).not.toContain('inbox_unavailable')
      // Another worker receives.
      await register(database, { name: `other.${queue}`, queues: [], alive: true })
      await database.sql('UPDATE sluice.worker SET statistics = $2::text::jsonb WHERE name = $1', [
        `other.${queue}`,
        JSON.stringify({ [queue]: { inbox: { system: 'memory', sinceMs: Date.now() } } }),
      ])
      expect(words(await sluice.operate.queues.explain(queue))).toEqual(['no_worker', 'due_now'])
    },
  )

  test('status and the doctor find it after five minutes', async ({ database, sluice, queue, from }) => {
    vi.useFakeTimers({ toFake: ['Date'], now: Date.now() - 360_000 })
    onTestFinished(() => void vi.useRealTimers())
    refuse(from)
    sluice.inbox(queue, { from, breaker: NEVER }).start()
    await untilRow(database, queue, isUnavailable, 'the outage')
    const { attention, inboxes } = await sluice.operate.status({ queue })
    expect(inboxes).toMatchObject([
      { queue, worker: `w.${queue}`, receiver: 'memory', state: 'unavailable', side: 'receiver' },
    ])
    const hint =
      'change what the error says; after a change of its options restart the worker, else the inbox goes on by itself'
    expect(attention).toEqual([
      {
        kind: 'inboxes.unavailable',
        severity: 'wrong',
        subject: queue,
        queue,
        messages: 0,
        text: expect.stringMatching(
          /^the inbox of worker w\.\S+ cannot receive from its broker, memory, for 6m.*, now because of a setting: no such consumer$/,
        ),
        remedy: `npx sluice doctor # ${hint}`,
      },
    ])
    expect(await found(database, 'inboxes')).toMatchObject([
      {
        severity: 'error',
        subject: `queue ${queue}`,
        finding: expect.stringMatching(
          /^The inbox of worker w\.\S+ cannot receive from its broker, memory, for 6m.*, now because of a setting: no such consumer$/,
        ),
        remedy: `SELECT * FROM sluice.inboxes; -- ${hint}`,
      },
    ])
  })
})
