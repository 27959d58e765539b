import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { TcpProxy } from '../../../faults/environment/tcp-proxy.ts'
import { Control } from '../../../src/connection/control.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import { reapWorkers } from '../../../src/table/worker/reap.ts'
import {
  configureControl,
  newWorkerId,
  registerWorker,
  unregisterWorker,
  workerIdOf,
} from '../../../src/table/worker/worker.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { EventLog } from '../../support/event-log.ts'
import { NO_POLL, raisedFlag, THIS_DATABASE } from '../../support/rows/flag.ts'
import { untilEmpty, untilRecorded } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { endSessions, untilSessions } from '../../support/servers/sessions.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const CONTROL = 'sluice control'

describe('a lost control connection', () => {
  test('is restored: the worker keeps its id, its batch is recorded again, its handler goes on', async ({
    database,
    queue,
    sluice,
    log,
  }) => {
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    const [id] = await put(sluice, queue, [1])
    const step = await steps.next()
    await untilRecorded(database, queue, 1)
    const before = await inFlight(database, queue)
    await endSessions(database, CONTROL)
    await log.first('connection.restored')
    expect(await inFlight(database, queue)).toEqual(before)
    expect(before).toMatchObject([{ id, worker_alive: true }])
    step.end()
    await untilEmpty(database, queue)
    expect(steps.taken.map(({ message }) => message.attempt)).toEqual([1])
    expect(log.all.filter(({ kind }) => kind.startsWith('connection')).map(({ kind }) => kind)).toEqual([
      'connection.lost',
      'connection.restored',
    ])
  })

  test('P4: takes back the evidence that was written against it meanwhile', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { directConnection: proxy.url })
    const log = new EventLog(sluice.events)
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1, 2])
    const first = await steps.next()
    await untilRecorded(database, queue, 2)
    const before = await inFlight(database, queue)
    proxy.refusing = true
    proxy.cut()
    const reap = await reaper(database)
    await waitFor(async () => (await reap()) && (await evidence(database, queue)) === 2, { what: 'the evidence' })
    expect(await inFlight(database, queue)).toEqual([])

    proxy.heal()
    await log.first('connection.restored', ({ role }) => role === 'control')
    expect(await inFlight(database, queue)).toEqual(before)
    await reap()
    expect(await evidence(database, queue)).toBe(0)
    expect(await inFlight(database, queue)).toEqual(before)
    first.end()
    ;(await steps.next()).end()
    await untilEmpty(database, queue)
    expect(steps.taken.map(({ message }) => message.attempt)).toEqual([1, 1])
  })

  test('what was enqueued meanwhile is handled soon after, without the poll', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { directConnection: proxy.url, pollInterval: NO_POLL })
    const log = new EventLog(sluice.events)
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await raisedFlag(database, queue)
    proxy.refusing = true
    proxy.cut()
    await log.first('connection.lost', ({ role }) => role === 'control')
    await waitFor(() => proxy.accepted >= 12, { what: 'some attempts to connect' })
    await put(sluice, queue, [1])
    proxy.heal()
    ;(await steps.next()).end()
    await untilEmpty(database, queue)
    const reasons = log.of('connection.lost').map(({ role, error }) => `${role}: ${error.message}`)
    expect(reasons).toEqual([...new Set(reasons)])
    // The listener's; of the control connection its end, and a reset that is read as such or as an end.
    expect(reasons.length).toBeLessThanOrEqual(4)
  })

  test('is what a worker has, not what it is: a session of its own that lingers is ended', async ({
    database,
    queue,
  }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { directConnection: proxy.url, name: queue })
    const log = new EventLog(sluice.events)
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    const step = await steps.next()
    await untilRecorded(database, queue, 1)
    const before = await inFlight(database, queue)
    // The server does not see that the client is gone: it keeps the session, and the worker's lock with it.
    proxy.loseClients(CONTROL)
    await log.first('connection.restored', ({ role }) => role === 'control')
    await untilSessions(database, CONTROL, 1)
    expect(await inFlight(database, queue)).toEqual(before)
    step.end()
    await untilEmpty(database, queue)
  })
})

test('a half-open control connection is replaced as soon as a statement is not answered', async ({ database }) => {
  const { proxy, control, events } = await startControl(database, 1_000)
  proxy.blackHole()
  const statements = [1, 2, 3].map((n) => control.execute({ name: `half_open_${n}`, text: 'SELECT 1' }, []))
  for (const statement of statements) await expect(statement).rejects.toThrow()
  await waitFor(() => proxy.accepted >= 3, { what: 'two attempts in the black hole' })
  proxy.heal()
  await waitFor(() => events.some(({ kind }) => kind === 'connection.restored'), { what: 'the connection' })
  expect(await control.execute({ name: 'healed', text: 'SELECT 1 AS one' }, [])).toEqual([{ one: 1 }])
  await control.stop()
})

test('who hears that a control connection is restored can use it, and hears nothing of the first one', async ({
  database,
}) => {
  const proxy = await startProxy(database.url)
  const heard: string[] = []
  const connection = { connectionString: proxy.url }
  const control = new Control({ connection, connectTimeoutMs: 5_000, report: () => undefined })
  const hear = (what: string) => heard.push(`${what}, ${control.session === undefined ? 'not usable' : 'usable'}`)
  control.onRestored(() => hear('restored'))
  control.onUp(async () => void hear('up'))
  await control.start()
  proxy.cut()
  await waitFor(() => heard.length === 3, { what: 'the restored connection' })
  expect(heard).toEqual(['up, not usable', 'up, not usable', 'restored, usable'])
  await control.stop()
})

test('P4: the server soon finds out that the machine of a worker is gone', async ({ database }) => {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  await configureControl(executeOn(client))
  const settings = await client.query(
    `SELECT setting::integer FROM pg_settings WHERE name ~ '^tcp_keepalives' ORDER BY name`,
  )
  expect(settings.rows).toEqual([{ setting: 3 }, { setting: 15 }, { setting: 5 }])
})

describe('stop', () => {
  test.for([
    { state: 'it is idle', make: (_: TcpProxy) => undefined },
    { state: 'its direct connections are cut', make: (proxy: TcpProxy) => proxy.cut() },
    {
      state: 'its direct connections are refused',
      make: (proxy: TcpProxy) => {
        proxy.refusing = true
        proxy.cut()
      },
    },
    {
      state: 'its direct connections are lost in a black hole while they are restored',
      make: (proxy: TcpProxy) => {
        proxy.cut()
        proxy.blackHole()
      },
    },
  ])('is soon done, and leaves no session, when $state', async ({ make }, { database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { directConnection: proxy.url, connectTimeout: 60_000 })
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await raisedFlag(database, queue)
    make(proxy)
    const started = performance.now()
    await sluice.stop()
    expect(performance.now() - started).toBeLessThan(30_000)
    for (const application of [CONTROL, 'sluice listener', 'sluice']) await untilSessions(database, application, 0)
  })

  test('lets a handler end while the control connection is down', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const sluice = startTestSluice(database, { directConnection: proxy.url })
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, [1])
    const step = await steps.next()
    proxy.refusing = true
    proxy.cut()
    const stopped = sluice.stop()
    step.end()
    await stopped
    await untilEmpty(database, queue)
  })

  test('stops a control connection that is half-open', async ({ database }) => {
    const { proxy, control } = await startControl(database)
    proxy.blackHole()
    const started = performance.now()
    await control.stop()
    expect(performance.now() - started).toBeLessThan(30_000)
  })

  test('stops a control connection that is just being restored', async ({ database }) => {
    const { proxy, control, events } = await startControl(database)
    proxy.delayMs = () => 20
    proxy.cut()
    await waitFor(() => proxy.accepted === 2, { what: 'the second connection' })
    await expect(control.execute({ name: 'never_sent', text: 'SELECT 1' }, [])).rejects.toMatchObject({
      code: 'UNREACHABLE',
    })
    await control.stop()
    await untilSessions(database, CONTROL, 0)
    expect(events.map(({ kind }) => kind)).toEqual(['connection.lost'])
  })
})

async function startControl(database: TestDatabase, answerMs = 60_000) {
  const proxy = await startProxy(database.url)
  const events: SluiceEvent[] = []
  const connection = { connectionString: proxy.url }
  const control = new Control({ connection, connectTimeoutMs: 1_500, answerMs, report: (event) => events.push(event) })
  await control.start()
  return { proxy, control, events }
}

test('a number that a fail-over gave out again is left to the process that stands on the books with it', async ({
  database,
}) => {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  const execute = executeOn(client)
  const taken = await newWorkerId(execute)
  await registerWorker(execute, taken, { name: 'theirs', host: 'h', pid: 1, version: '0' }, [])
  const forget = `SELECT setval(pg_get_serial_sequence('sluice.worker', 'id'), $1, false)`
  await client.query(forget, [taken])
  const ours = { name: 'ours', host: 'h', pid: 1, version: '0' }
  expect(await workerIdOf(execute, ours)).toBeGreaterThan(taken)
  expect(await workerIdOf(execute, ours, taken)).toBeGreaterThan(taken)
  expect(await workerIdOf(execute, { ...ours, name: 'theirs' }, taken)).toBe(taken)
  await unregisterWorker(execute, taken)
})

test('a worker that registers ends no session that only looks whether it lives', async ({ database }) => {
  const [looks, back] = [new pg.Client(database.url), new pg.Client(database.url)]
  onTestFinished(async () => void (await Promise.all([looks.end(), back.end()])))
  looks.on('error', () => undefined)
  for (const client of [looks, back]) await client.connect()
  const execute = executeOn(back)
  const id = await newWorkerId(execute)
  await looks.query('SELECT pg_advisory_lock_shared(746502, $1)', [id])
  const registered = registerWorker(execute, id, { name: 'back', host: 'h', pid: 1, version: '0' }, [])
  const waits = `SELECT FROM pg_locks l
    WHERE l.locktype = 'advisory' AND l.classid = 746502 AND l.objid = $1 AND NOT l.granted AND ${THIS_DATABASE}`
  await waitFor(async () => (await database.sql(waits, [id])).length > 0, { what: 'the worker to wait for the lock' })
  await looks.query('SELECT pg_advisory_unlock_shared(746502, $1)', [id])
  await registered
  await unregisterWorker(execute, id)
})

/** Looks for dead workers when called, as another worker would. */
async function reaper(database: TestDatabase): Promise<() => Promise<unknown>> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  return () => reapWorkers(executeOn(client), 0)
}

/** How many pieces of evidence there are against messages of the queue. */
async function evidence(database: TestDatabase, queue: string): Promise<number> {
  return (await database.sql('SELECT FROM sluice.crash WHERE queue = $1', [queue])).length
}

function inFlight(database: TestDatabase, queue: string) {
  return database.sql(
    'SELECT id, attempt, batch, worker_id, worker, worker_alive FROM sluice.in_flight WHERE queue = $1 ORDER BY id',
    [queue],
  )
}
