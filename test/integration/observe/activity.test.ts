import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { Control } from '../../../src/connection/control.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import { retryLater } from '../../../src/message.ts'
import { ActivityLog } from '../../../src/services/activity-log.ts'
import { Activity } from '../../../src/statistics/activity.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { test as withLogins } from '../../support/servers/logins.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('emptied', { auto: true }, async ({ database }) => {
  await database.sql('TRUNCATE sluice.worker_activity')
})

const ROWS = 'SELECT worker_id, queues FROM sluice.worker_activity ORDER BY at'

/** Of ten handlers, the first took 1 ms, the last 512 ms. */
function tenHandlers(): Activity {
  const activity = new Activity()
  for (let at = 0; at < 10; at++) {
    activity.handling.add(2 ** at)
    activity.waiting.add(1_000)
  }
  activity.settled({ acked: 9, retried: 1, snoozed: 0, dead: 0 })
  return activity
}

describe('the activity of a queue', () => {
  test('is what its workers have done, written when they stop', async ({ database, queue }) => {
    const worker = startTestSluice(database)
    await put(worker, queue, ['ack', 'ack', 'later'])
    await put(worker, queue, ['die'], { maxAttempts: 1 })
    await worker
      .pipeline(queue, { batchSize: 10 })
      .handle(({ payload }) =>
        payload === 'later' ? retryLater({ after: '1h' }) : payload === 'die' ? raise() : undefined,
      )
      .runOnce()
    expect(await database.sql(ROWS)).toEqual([])
    await worker.stop()
    const [step, ...others] = await startTestSluice(database).operate.queues.activity({ queue })
    expect(others).toEqual([])
    expect(step).toMatchObject({ queue, acked: 2, retried: 1, snoozed: 0, dead: 1, batches: 1 })
    expect(step!.at.getTime() % 60_000).toBe(0)
    expect(step!.waitingP50Ms).toBeLessThanOrEqual(step!.waitingMaxMs!)
  })

  test('is written by no process that does nothing', async ({ database, queue }) => {
    const worker = startTestSluice(database)
    const running = worker
      .pipeline(queue)
      .handle(() => undefined)
      .start()
    await worker.start()
    await running.stop()
    await worker.stop()
    expect(await database.sql(ROWS)).toEqual([])
  })

  test('adds up over workers and minutes, percentiles included', async ({ database, sluice, queue }) => {
    const done = JSON.stringify({ [queue]: tenHandlers(), other: tenHandlers() })
    await database.sql(
      `INSERT INTO sluice.worker_activity (at, worker_id, number, queues)
       SELECT date_bin('10 min', now(), 'epoch') - m * interval '1 min', w, m, $1::jsonb
       FROM unnest('{1,2,12}'::int[]) m, generate_series(1, 3) w`,
      [done],
    )
    const steps = await sluice.operate.queues.activity({ queue, step: '10m' })
    const three = { queue, acked: 27, retried: 3, snoozed: 0, dead: 0, batches: 3 }
    expect(steps).toMatchObject([three, { ...three, acked: 54, retried: 6, batches: 6 }])
    for (const { handlingP50Ms, handlingP99Ms, handlingMaxMs, waitingP50Ms } of steps) {
      expect(Math.abs(handlingP50Ms! / 16 - 1)).toBeLessThan(0.13)
      expect(Math.abs(handlingP99Ms! / 512 - 1)).toBeLessThan(0.13)
      expect(Math.abs(waitingP50Ms! / 1_000 - 1)).toBeLessThan(0.13)
      expect(handlingMaxMs).toBe(512)
    }
    expect(steps.map(({ handlingTotalMs }) => handlingTotalMs)).toEqual([3 * 1_023, 6 * 1_023])
    const [first, second] = steps.map(({ at }) => at.getTime())
    expect(second! - first!).toBe(600_000)
    await database.sql(`UPDATE sluice.worker_activity SET at = at - interval '90 min' WHERE worker_id > 1`)
    // A day may have begun between them.
    const days = await sluice.operate.queues.activity({ queue, step: '1d' })
    expect(days.reduce((sum, { acked }) => sum + acked, 0)).toBe(27)
    expect((await sluice.operate.queues.activity({ since: '2h' })).map((step) => step.queue)).toContain('other')
  })

  test('leaves out what no worker of the library writes', async ({ database, sluice, queue }) => {
    const insert = 'INSERT INTO sluice.worker_activity (worker_id, number, queues) VALUES ($1, $2, $3::jsonb)'
    const good = JSON.parse(JSON.stringify(tenHandlers()))
    const odd = [
      ...[5, null, 'x', [], {}, [good]],
      ...['x', null, -1, 1e300, [1], {}].map((acked) => ({ ...good, acked })),
      ...[5, [], { ...good.waiting, maxMs: 1e300 }, { ...good.waiting, maxMs: null }].map((waiting) => ({
        ...good,
        waiting,
      })),
      ...[[], 'x', { 0: 'x' }, { 0: 1e300 }, { 0: {} }].map((buckets) => ({
        ...good,
        handling: { ...good.handling, buckets },
      })),
    ]
    for (const [at, done] of odd.entries()) await database.sql(insert, [1, at, JSON.stringify({ [queue]: done })])
    expect(await sluice.operate.queues.activity()).toEqual([])
    const decimal = JSON.stringify({ [queue]: good }).replace('"acked":9', '"acked":9.0')
    await database.sql(insert, [2, 1, decimal])
    const oddBuckets = { ...good.waiting, buckets: { ...good.waiting.buckets, zz: 1, 999: 1, '-1': 1 } }
    await database.sql(insert, [2, 2, JSON.stringify({ [queue]: { ...good, waiting: oddBuckets } })])
    await database.sql(`UPDATE sluice.worker_activity SET at = (SELECT max(at) FROM sluice.worker_activity)`)
    await database.sql(
      `INSERT INTO sluice.worker_activity SELECT 3, 1, 'infinity', queues FROM sluice.worker_activity LIMIT 1`,
    )
    expect(await sluice.operate.queues.activity()).toMatchObject([{ queue, acked: 18, handlingMaxMs: 512 }])
    await expect(database.sql(insert, [4, 1, '[]'])).rejects.toMatchObject({ code: '23514' })
  })

  test('is shown by the command line', async ({ database, queue }) => {
    await database.sql(`INSERT INTO sluice.worker_activity (worker_id, number, queues) VALUES (1, 1, $1::jsonb)`, [
      JSON.stringify({ [queue]: tenHandlers() }),
    ])
    const env = { DATABASE_URL: database.url }
    const shown = await runCli(['queue', 'activity', queue], env)
    expect(shown.stdout).toMatch(/QUEUE +FROM +ACKED +\/S +RETRIED/)
    expect(shown.stdout).toMatch(new RegExp(`${queue} +\\S+ \\S+ +9 +\\d+\\.\\d +1 +960ms`))
    const { stdout } = await runCli(['queue', 'activity', '--json', '--since', '2d', '--step', '1h'], env)
    expect(JSON.parse(stdout)).toMatchObject([{ queue, acked: 9 }])
    expect(await runCli(['queue', 'activity', 'nothing'], env)).toMatchObject({ code: 0, stderr: /Nothing was done/ })
    expect(await runCli(['queue', 'activity', '--since', '3d'], env)).toMatchObject({ code: 2 })
  })

  test('refuses times that it does not know', async ({ sluice, database }) => {
    await expect(sluice.operate.queues.activity({ since: '3d' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(sluice.operate.queues.activity({ step: '1s' })).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    for (const given of [`since => '3 days'`, `since => '-1 s'`, `since => NULL`, `step => '1 s'`, `step => '1 month'`])
      await expect(database.sql(`SELECT FROM sluice.activity(${given})`)).rejects.toMatchObject({ code: '22023' })
  })

  test('goes after two days', async ({ database, sluice, queue }) => {
    await database.sql(
      `INSERT INTO sluice.worker_activity (at, worker_id, number, queues)
       SELECT now() - age, 7, n, $1::jsonb FROM unnest('{47 hours,49 hours,9 days}'::interval[]) WITH ORDINALITY AS a (age, n)`,
      [JSON.stringify({ [queue]: tenHandlers() })],
    )
    await sluice.operate.maintain()
    expect(await database.sql(ROWS)).toHaveLength(1)
  })
})

/** What was done since the last call: ten handlers of a queue, for each time that it is given. */
function taking(queue: string): { readonly take: () => ReadonlyMap<string, Activity>; readonly give: () => void } {
  let done = new Map<string, Activity>()
  const give = () => {
    done = new Map([[queue, tenHandlers()]])
  }
  const take = () => {
    const taken = done
    done = new Map()
    return taken
  }
  give()
  return { take, give }
}

describe('activity that could not be written', () => {
  test('is written with the next, in rows of its own', async ({ database, queue }) => {
    const execute = executeOn(database.pool)
    let fails = true
    const { take, give } = taking(queue)
    const log = new ActivityLog({
      control: {
        execute: (statement, params) => (fails ? Promise.reject(new Error('no')) : execute(statement, params)),
      },
      workerId: () => 3,
      take,
      report: () => expect.unreachable(),
    })
    for (let minute = 0; minute < 4; minute++) await expect(log.runOnce()).rejects.toThrow('no')
    fails = false
    give()
    expect(await log.runOnce()).toBe(true)
    expect(await database.sql(ROWS)).toMatchObject([
      { worker_id: 3, queues: { [queue]: { acked: 9 } } },
      { worker_id: 3, queues: { [queue]: { acked: 9 } } },
    ])
    expect(await log.runOnce()).toBe(false)
  })

  test('as far as its worker knows is counted once, if only the answer was lost', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    let cuts = true
    let asked = false
    proxy.passes = ({ bytes }, { from }) => {
      asked ||= from === 'client' && bytes.includes('activity_write')
      if (!cuts || !asked || from !== 'server' || !bytes.includes('INSERT 0 1')) return true
      cuts = false
      return 'cut'
    }
    const events: SluiceEvent[] = []
    const report = (event: SluiceEvent) => void events.push(event)
    const control = new Control({ connection: { connectionString: proxy.url }, connectTimeoutMs: 10_000, report })
    onTestFinished(() => control.stop())
    await control.start()
    const { take, give } = taking(queue)
    const log = new ActivityLog({ control, workerId: () => 4, take, report })
    await expect(log.runOnce()).rejects.toThrow()
    await waitFor(() => events.some(({ kind }) => kind === 'connection.restored'), { what: 'the control connection' })
    give()
    expect(await log.runOnce()).toBe(true)
    expect(await database.sql(ROWS)).toHaveLength(2)
    expect(events.map(({ kind }) => kind)).not.toContain('activity.failed')
  })
})

withLogins('a worker that may not write its activity says so once, with what to grant', async ({ database, login }) => {
  const { url } = await login('sluice_worker')
  await database.sql('REVOKE INSERT ON sluice.worker_activity FROM sluice_worker')
  const client = new pg.Client(url)
  await client.connect()
  onTestFinished(() => client.end())
  const events: SluiceEvent[] = []
  const { take, give } = taking('mails')
  const log = new ActivityLog({
    control: { execute: executeOn(client) },
    workerId: () => 5,
    take,
    report: (event) => events.push(event),
  })
  for (let minute = 0; minute < 2; minute++) await expect(log.runOnce()).rejects.toThrow()
  expect(events).toMatchObject([
    {
      kind: 'activity.failed',
      error: { code: 'PRIVILEGE_MISSING', message: expect.stringContaining('GRANT sluice_worker TO') },
    },
  ])
  await database.sql('GRANT INSERT ON sluice.worker_activity TO sluice_worker')
  give()
  expect(await log.runOnce()).toBe(true)
})
