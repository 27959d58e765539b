import { describe, expect, onTestFinished } from 'vitest'
import { ack } from '../../../src/message.ts'
import type { Finding } from '../../../src/table/operate/doctor.ts'
import { findingsOf } from '../../support/rows/findings.ts'
import { bury, register } from '../../support/rows/operations.ts'
import { append, jumpSegment, makeStream } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startPooler } from '../../support/servers/pooler.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const LATER = { kind: 'fixed', delay: '1h' } as const

/** The findings whose subject or text has the name of the test's queue, or which are of a check. */
async function about(database: TestDatabase, name: string, openFor?: string): Promise<readonly Finding[]> {
  const findings = await findingsOf(database, openFor)
  return findings.filter(({ kind, subject, finding }) => `${kind} ${subject} ${finding}`.includes(name))
}

/** Lets the messages of a queue have been due for two minutes. */
function due(database: TestDatabase, queue: string): Promise<unknown> {
  return database.sql(`UPDATE sluice.message SET due_at = due_at - interval '2 minutes' WHERE queue = $1`, [queue])
}

describe('workers', () => {
  test('that have a connection and send no heartbeat are found, and one that does is not', async ({
    database,
    queue,
  }) => {
    await register(database, { name: `hangs.${queue}`, queues: [queue], alive: true, inHand: 2 })
    await register(database, { name: `works.${queue}`, queues: [queue], alive: true, inHand: 2 })
    expect(await about(database, 'workers.stale')).toEqual([])
    await database.sql(`UPDATE sluice.worker SET seen_at = seen_at - interval '2 minutes' WHERE name = $1`, [
      `hangs.${queue}`,
    ])
    expect(await about(database, 'workers.stale')).toMatchObject([
      {
        severity: 'error',
        subject: `worker hangs.${queue}`,
        finding: expect.stringMatching(/sent no heartbeat for 2m(?: \d+s)?, with 2 messages in flight/),
        remedy: 'kill -9 1 # on host',
      },
    ])
  })

  test('that no notification reaches are found, until one does', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    proxy.passes = (_, { application }) => (application === 'sluice listener' ? 'cut' : true)
    const name = `deaf.${queue}`
    const worker = startTestSluice(database, { connection: proxy.url, name, pollInterval: '100ms' })
    worker
      .pipeline(queue)
      .handle(() => ack())
      .start()
    const said = async (listening: boolean) =>
      (await database.sql('SELECT FROM sluice.worker WHERE name = $1 AND listening = $2', [name, listening])).length > 0
    await waitFor(() => said(false), { what: 'a heartbeat' })
    expect(await about(database, `worker ${name}`)).toEqual([])
    await database.sql(`UPDATE sluice.worker SET started_at = now() - interval '2 minutes' WHERE name = $1`, [name])
    expect(await about(database, `worker ${name}`)).toMatchObject([
      {
        kind: 'workers.not_listening',
        severity: 'warning',
        finding: expect.stringMatching(
          /^No notification reaches it, by its heartbeat \d+m?s ago: it finds messages by its poll/,
        ),
      },
    ])
    proxy.passes = () => true
    await waitFor(() => said(true), { what: 'the next heartbeat' })
    expect(await about(database, `worker ${name}`)).toEqual([])
  })

  test('cannot make another command of a remedy by what they say of their machine', async ({ database, queue }) => {
    await register(database, { name: `evil.${queue}`, queues: [queue], alive: true })
    await database.sql(
      `UPDATE sluice.worker SET seen_at = seen_at - interval '2 minutes', host = E'host\nrm -rf $(HOME)' WHERE name = $1`,
      [`evil.${queue}`],
    )
    const evil = (await about(database, `evil.${queue}`)).map(({ remedy }) => remedy)
    expect(evil).toEqual(['kill -9 1 # on host?rm?-rf???HOME?'])
  })

  test('that vanished with messages which nobody else has noticed are found', async ({ database, queue }) => {
    await register(database, { name: `gone.${queue}`, queues: [queue], alive: false, inHand: 3 })
    await register(database, { name: `idle.${queue}`, queues: [queue], alive: false })
    const alone = await about(database, 'workers.gone')
    expect(alone.filter(({ subject }) => subject.includes(queue))).toMatchObject([
      {
        severity: 'error',
        subject: `worker gone.${queue}`,
        finding: expect.stringContaining('no live worker consumes its queues'),
      },
    ])
    await register(database, { name: `alive.${queue}`, queues: [queue], alive: true })
    expect(await about(database, 'workers.gone')).toEqual([])
    await database.sql(
      `UPDATE sluice.worker SET seen_at = seen_at - interval '4 minutes' WHERE name LIKE '%gone%' AND queues = $1`,
      [[queue]],
    )
    expect(await about(database, 'workers.gone')).toMatchObject([
      { severity: 'warning', subject: `worker gone.${queue}`, finding: expect.stringContaining('3 messages') },
    ])
  })

  test('of different versions are found as long as both live', async ({ database, queue }) => {
    await register(database, { name: `new.${queue}`, queues: [queue], alive: true })
    await register(database, { name: `old.${queue}`, queues: [queue], alive: false })
    await database.sql(`UPDATE sluice.worker SET version = '9.9.9' WHERE name = $1`, [`old.${queue}`])
    expect(await about(database, 'workers.versions')).toEqual([])
    await register(database, { name: `other.${queue}`, queues: [queue], alive: true })
    await database.sql(`UPDATE sluice.worker SET version = '8.8.8' WHERE name = $1`, [`other.${queue}`])
    expect(await about(database, 'workers.versions')).toMatchObject([
      { severity: 'warning', finding: 'They run different versions of the library: 0 (1), 8.8.8 (1)' },
    ])
  })

  test('behind a pooler without a direct connection are found, and those with one are not', async ({
    database,
    queue,
    skip,
  }) => {
    const through = await startPooler(database, skip)
    const direct = startTestSluice(database, {
      connection: through.url,
      directConnection: database.url,
      name: 'direct',
    })
    await using _ = direct
      .pipeline(queue)
      .handle(() => ack())
      .subscribe()
    await registered(database, 'direct')
    expect(await about(database, 'workers.pooled')).toEqual([])
    const pooled = startTestSluice(database, { connection: through.url, name: 'pooled' })
    pooled
      .pipeline(queue)
      .handle(() => ack())
      .subscribe()
    await registered(database, 'pooled')
    expect(await about(database, 'workers.pooled')).toMatchObject([
      { severity: 'warning', finding: expect.stringMatching(/^Behind a pooler without a direct connection: pooled\./) },
    ])
  })
})

describe('a queue', () => {
  test('with messages that are due and no worker is found, until one consumes or claims or pauses it', async ({
    database,
    sluice,
    queue,
  }) => {
    await put(sluice, queue, [1])
    expect(await about(database, queue)).toEqual([])
    await due(database, queue)
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'queues.no_worker',
        severity: 'error',
        subject: `queue ${queue}`,
        finding: expect.stringMatching(/due for 2m(?: \d+s)?, and no live worker/),
      },
    ])
    await sluice.operate.queues.pause(queue)
    expect(await about(database, queue)).toEqual([])
    await sluice.operate.queues.resume(queue)
    expect(await about(database, queue)).toHaveLength(1)
    await register(database, { name: `w.${queue}`, queues: [queue], alive: true })
    expect(await about(database, `queue ${queue}`)).toEqual([])
  })

  test('whose messages have ordering keys is found as well, and one from which a claim is open is not', async ({
    database,
    sluice,
    queue,
  }) => {
    await put(sluice, queue, [1, 2], { orderingKey: 'a' })
    await due(database, queue)
    expect(await about(database, `queue ${queue}`)).toMatchObject([{ kind: 'queues.no_worker' }])
    await sluice.claim(queue, { limit: 1 })
    expect(await about(database, `queue ${queue}`)).toEqual([])
  })

  test('with a name that is nearly that of one which is consumed is named with it', async ({ database, sluice }) => {
    await register(database, { name: 'near', queues: ['invoices'], alive: true })
    await put(sluice, 'invocies', [1])
    await due(database, 'invocies')
    const findings = await sluice.operate.doctor()
    expect(findings.find(({ subject }) => subject === 'queue invocies')).toMatchObject({
      kind: 'queues.no_worker',
      finding: expect.stringMatching(/; workers consume "invoices"$/),
    })
  })

  test('whose retries all fail alike is found, and one whose retries differ is not', async ({
    database,
    sluice,
    queue,
  }) => {
    const failing = (name: string, error: (n: unknown) => string) =>
      sluice
        .pipeline(name, { retry: LATER, batchSize: 20, concurrency: 1 })
        .handle(({ payload }) => raise(error(payload)))
    const [alike, unlike] = [`${queue}.alike`, `${queue}.unlike`]
    for (const name of [alike, unlike])
      await put(
        sluice,
        name,
        Array.from({ length: 12 }, (_, n) => n),
      )
    await failing(alike, (n) => `connect ECONNREFUSED 10.0.0.${n}:5432`).runOnce()
    await failing(unlike, (n) => `${'abcdefghijkl'.at(Number(n))} is wrong`).runOnce()
    const findings = await about(database, queue)
    expect(findings).toMatchObject([
      {
        kind: 'queues.alike',
        severity: 'warning',
        subject: `queue ${alike}`,
        finding: expect.stringMatching(
          /^12 of 12 retries that were looked at failed with: .*connect ECONNREFUSED N\.N\.N\.N:N/,
        ),
        remedy: expect.stringContaining(`npx sluice queue pause ${alike} `),
      },
    ])
  })

  test('whose retries all fail with the same words is found with these, without the password of a URL', async ({
    database,
    sluice,
    queue,
  }) => {
    await put(
      sluice,
      queue,
      Array.from({ length: 10 }, () => 1),
    )
    await sluice
      .pipeline(queue, { retry: LATER, batchSize: 20, concurrency: 1 })
      .handle(() => raise('no answer from amqp://guest:s3cret@10.0.0.7:5672'))
      .runOnce()
    const [{ finding } = { finding: '' }] = await about(database, `queues.alike queue ${queue} `)
    expect(finding).toMatch(/^10 of 10 retries .* no answer from amqp:\/\/guest:\*\*\*@10\.0\.0\.7:5672$/)
  })

  test('whose dead letters of the last hour all died alike is found', async ({ database, queue }) => {
    await bury(database, { queue, count: 11, error: 'Error: no account 17', agoMs: 60_000 })
    await bury(database, { queue: `${queue}.old`, count: 11, error: 'Error: no account 17', agoMs: 7_200_000 })
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'dead_letters.alike',
        severity: 'warning',
        subject: `queue ${queue}`,
        finding: '11 of 11 dead letters that were looked at failed with: Error: no account 17',
      },
    ])
  })

  test.for(['transactional', 'leased'] as const)(
    'in which a key has waited for a failed message for an hour is found, in %s mode',
    async (mode, { database, sluice, queue }) => {
      const [id] = await put(sluice, queue, [1, 2, 3], { orderingKey: 'a' })
      const options = { mode, concurrency: 1, batchSize: 1, retry: { kind: 'fixed', delay: '12h' } } as const
      await sluice
        .pipeline(queue, options as { mode: 'leased' })
        .handle(() => raise('no stock of 4711'))
        .runOnce()
      expect(await about(database, 'keys.held')).toEqual([])
      await database.sql(
        `UPDATE sluice.message SET failures = jsonb_set(failures, '{0,at}', to_jsonb(now() - interval '2 hours'))
         WHERE queue = $1 AND id = $2`,
        [queue, id],
      )
      expect(await about(database, queue)).toMatchObject([
        {
          kind: 'keys.held',
          severity: 'warning',
          subject: `queue ${queue}, key a`,
          finding: expect.stringMatching(
            new RegExp(
              `^Message ${id} has failed 1 time, the first known time 2h ago, .* with 2 messages behind it; .*no stock of 4711`,
            ),
          ),
          remedy: `npx sluice message run-now ${queue} ${id} # or: npx sluice message cancel ${queue} ${id}`,
        },
      ])
      await sluice.operate.messages.cancel(queue, id!)
      expect(await about(database, 'keys.held')).toEqual([])
    },
  )

  test('whose limit is used up by a message that does not end is found while others wait', async ({
    database,
    sluice,
    queue,
  }) => {
    await sluice.operate.queues.settings.set(queue, { concurrency: 1 })
    const [id] = await put(sluice, queue, [1])
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await steps.next()
    await waitFor(async () => (await sluice.operate.workers.inFlight({ queue })).length === 1, { what: 'a record' })
    expect(await about(database, queue, '0')).toEqual([])
    await put(sluice, queue, [2])
    expect(await about(database, queue)).toEqual([])
    expect((await about(database, queue, '0')).filter(({ kind }) => kind !== 'horizon.session')).toMatchObject([
      {
        kind: 'limits.stuck',
        severity: 'warning',
        subject: `queue ${queue}`,
        finding: expect.stringMatching(new RegExp(`^Its limit of 1 message in flight .*, by message ${id} in `)),
      },
    ])
  })

  test('of which a tenant has used up its limit with a message that does not end is found while others of it wait', async ({
    database,
    sluice,
    queue,
  }) => {
    await sluice.operate.queues.settings.set(queue, { tenantConcurrency: 1 })
    const [id] = await put(sluice, queue, [1], { tenant: 'acme' })
    const claim = await sluice.claim(queue, { limit: 1 })
    expect(claim?.messages.map((message) => message.id)).toEqual([id])
    await put(sluice, queue, [2], { tenant: 'other' })
    expect(await about(database, queue, '0')).toEqual([])
    await put(sluice, queue, [3], { tenant: 'acme' })
    expect(await about(database, queue)).toEqual([])
    expect(await about(database, queue, '0')).toMatchObject([
      {
        kind: 'limits.tenant_stuck',
        severity: 'warning',
        subject: `queue ${queue}, tenant acme`,
        finding: expect.stringMatching(
          new RegExp(`^The tenant's limit of 1 message in flight .*, by message ${id} in claim `),
        ),
        remedy: expect.stringContaining(`npx sluice queue set ${queue} --tenant-concurrency 2`),
      },
    ])
  })

  test('with a message that several workers died with is found', async ({ database, queue }) => {
    const evidence = (worker: number) =>
      database.sql(
        `SELECT sluice_private.record_crash($1, 4711, $2::integer, 1, 'vanished', 'w' || $2::integer, true)`,
        [queue, worker],
      )
    await evidence(1)
    expect(await about(database, queue)).toEqual([])
    await evidence(2)
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'messages.crashing',
        severity: 'warning',
        subject: `queue ${queue}, message 4711`,
        finding: expect.stringMatching(/^2 workers died or hung while they had it, the last one, w2, \d+m?s ago/),
      },
    ])
  })
})

describe('schedules and maintenance', () => {
  test('that no worker looks after are found', async ({ database, sluice, queue }) => {
    await sluice.schedules.set(queue, { queue, payload: 1, every: '1h' })
    await sluice.schedules.set(`${queue}.paused`, { queue, payload: 1, every: '1h' })
    await sluice.operate.schedules.pause(`${queue}.paused`)
    expect(await about(database, queue)).toEqual([])
    await database.sql(`UPDATE sluice.schedule SET next_at = now() - interval '10 minutes' WHERE queue = $1`, [queue])
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'schedules.overdue',
        severity: 'error',
        subject: `schedule ${queue}`,
        finding: expect.stringContaining('10m ago'),
      },
    ])
    await database.sql(
      `SELECT sluice_private.schedule_failed(name, revision, 'no such zone') FROM sluice.schedule WHERE name = $1`,
      [queue],
    )
    expect(await about(database, queue)).toMatchObject([
      { kind: 'schedules.failed', severity: 'error', finding: 'No worker can enqueue its next message: no such zone' },
    ])
  })

  test('that have not been made for an hour although workers run are found', async ({ database, sluice, queue }) => {
    await register(database, { name: `long.${queue}`, queues: [queue], alive: true })
    expect(await about(database, 'maintenance.late')).toEqual([])
    await database.sql(`UPDATE sluice.worker SET started_at = now() - interval '2 hours' WHERE name = $1`, [
      `long.${queue}`,
    ])
    expect(await about(database, 'maintenance.late')).toMatchObject([
      { severity: 'warning', finding: expect.stringContaining('the last pass began never') },
    ])
    await sluice.operate.maintain()
    expect(await about(database, 'maintenance.late')).toEqual([])
  })
})

describe('a group', () => {
  test('that has unread events and no members is found, unless it is paused', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await append(database, queue, 2)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    expect(await about(database, queue)).toEqual([])
    await database.sql(`UPDATE sluice.event SET appended_at = now() - interval '2 minutes'`)
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'groups.no_members',
        severity: 'error',
        subject: `group all of stream ${queue}`,
        finding: expect.stringMatching(/unread events in \d+ partitions?, the oldest for 2m(?: \d+s)?/),
      },
    ])
    await sluice.groups.pause(queue, 'all')
    expect(await about(database, queue)).toEqual([])
    await sluice.groups.resume(queue, 'all')
    await register(database, { name: `m.${queue}`, queues: [`${queue}:all`], alive: true })
    expect(await about(database, queue)).toEqual([])
  })

  test('that waits for an event which has failed for good is found, until it is skipped', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql('SELECT sluice.create_stream($1, 1)', [queue])
    await sluice.groups.set(queue, 'all', { from: 'start', onFailure: 'stop' })
    await append(database, queue, 2)
    await sluice
      .pipeline(queue, { group: 'all', maxAttempts: 1 })
      .handle(() => raise('no stock'))
      .runOnce()
    const [stopped, ...others] = await about(database, queue)
    expect(others).toEqual([])
    expect(stopped).toMatchObject({
      kind: 'groups.stopped',
      severity: 'error',
      subject: `group all of stream ${queue}, partition 0`,
      finding: expect.stringMatching(/^It waits for event 1, which has failed for good: .*no stock/),
      remedy: `npx sluice group retry ${queue} all --partition 0 # or: npx sluice group skip ${queue} all 1`,
    })
    await sluice.operate.groups.skip(queue, 'all', 1)
    expect(await about(database, queue)).toEqual([])
  })

  test('that has lost events to retention is found, until it is moved', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    await append(database, queue, 3)
    await database.sql('SELECT sluice.trim_stream($1, 3, force => true)', [queue])
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'groups.lost',
        severity: 'error',
        finding: 'Retention has removed the events 1 to 2, which it had not read: it reads nothing until it is moved',
        remedy: `npx sluice group seek ${queue} all --to start`,
      },
    ])
    await sluice.groups.seek(queue, 'all', 'start')
    expect(await about(database, queue)).toEqual([])
  })

  test('that keeps segments which are old enough to go is found', async ({ database, sluice, queue }) => {
    await makeStream(database, queue)
    await sluice.streams.set(queue, { retain: '1h' })
    await sluice.groups.set(queue, 'slow', { from: 'start' })
    await append(database, queue, 3)
    await jumpSegment(database, queue)
    await append(database, queue, 1)
    await jumpSegment(database, queue)
    expect(await about(database, queue)).toEqual([])
    await database.sql(
      `UPDATE sluice.segment g SET closed_at = closed_at - interval '2 hours' FROM sluice.stream s
       WHERE s.stream = $1 AND g.stream_id = s.id AND g.first = 0`,
      [queue],
    )
    expect(await about(database, queue)).toMatchObject([
      {
        kind: 'streams.retention_blocked',
        severity: 'warning',
        subject: `stream ${queue}`,
        finding: expect.stringMatching(/closed 2h ago, is to go, .*: slow$/),
      },
    ])
    await sluice.groups.seek(queue, 'slow', 'end')
    expect(await about(database, queue)).toEqual([])
  })

  test('that waits behind an open append is found with the session that has it', async ({
    database,
    sluice,
    queue,
  }) => {
    await makeStream(database, queue)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    const client = await database.pool.connect()
    onTestFinished(() => client.release(true))
    await client.query('BEGIN')
    await client.query(`SELECT sluice.append($1, '1')`, [queue])
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    expect(await about(database, queue)).toEqual([])
    expect(await about(database, queue, '0')).toMatchObject([
      {
        kind: 'streams.open_append',
        severity: 'warning',
        finding: expect.stringMatching(new RegExp(`in process ${rows[0]?.pid}: groups do not read`)),
        remedy: `SELECT pg_terminate_backend(${rows[0]?.pid});`,
      },
    ])
    await client.query('COMMIT')
    expect(await about(database, queue, '0')).toEqual([])
  })
})

async function registered(database: TestDatabase, name: string): Promise<void> {
  const there = async () => (await database.sql('SELECT FROM sluice.worker WHERE name = $1', [name])).length > 0
  await waitFor(there, { what: `worker ${name} to register` })
}
