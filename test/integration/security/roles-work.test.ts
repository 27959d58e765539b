import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { deadLetter, retryLater, snooze } from '../../../src/message.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { workOf } from '../../../src/table/worker/server-process.ts'
import { createEffects, effectsOf } from '../../support/effects.ts'
import { EventLog } from '../../support/event-log.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { WorkerProcess } from '../../support/processes/worker-process.ts'
import { raisedFlag, THIS_DATABASE } from '../../support/rows/flag.ts'
import { bury } from '../../support/rows/operations.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { test as base, type Login, type RoleName } from '../../support/servers/logins.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const REFUSED = expect.objectContaining({ code: '42501' })
const lacks = (role: RoleName) =>
  expect.objectContaining({
    code: 'PRIVILEGE_MISSING',
    message: expect.stringContaining(`GRANT ${role} TO`),
    cause: REFUSED,
  })
const SLOW = { kind: 'fixed', delay: '1h' } as const

let queues = 0

const test = base
  .extend('queue', () => `roles.${++queues}`)
  .extend('producer', { scope: 'file' }, ({ login }) => login('sluice_producer'))
  .extend('claimer', { scope: 'file' }, ({ login }) => login('sluice_claimer'))
  .extend('worker', { scope: 'file' }, async ({ database, login }) => {
    const worker = await login('sluice_worker')
    await createEffects(database)
    await database.sql(`GRANT INSERT ON effect TO ${worker.name}`)
    return worker
  })

describe('a member of sluice_producer', () => {
  test('enqueues by every way, and wakes who sleeps', async ({ database, producer, queue }) => {
    const sluice = startTestSluice(producer)
    const everything = {
      type: 'a.b',
      schemaVersion: 2,
      headers: { a: 1 },
      orderingKey: 'k',
      priority: 1,
      delay: '1h',
      maxAttempts: 3,
    }
    await using sleeper = await sleepOn(database.url, queue)
    const ids = [await sluice.enqueue(sluice.ownTransaction, queue, 1)]
    ids.push(...(await put(sluice, queue, [2, 3], everything as Parameters<typeof put>[3])))
    const client = await producer.pool.connect()
    onTestFinished(() => client.release())
    // Not awaited: then the client cannot tell, and the server is asked.
    const begun = client.query('BEGIN')
    ids.push(await sluice.enqueue(client, queue, 4))
    await begun
    const { rows } = await client.query(`SELECT sluice.enqueue($1, '5', delay => '1 hour') AS id`, [queue])
    ids.push(rows[0].id)
    await client.query('COMMIT')
    const db = new Kysely<unknown>({ dialect: new PostgresDialect({ pool: producer.pool }) })
    await db.transaction().execute(async (tx) => void ids.push(await sluice.enqueue(tx, queue, 6)))
    expect(await database.sql('SELECT id, payload FROM sluice.messages WHERE queue = $1 ORDER BY id', [queue])).toEqual(
      ids.map((id, at) => ({ id, payload: at + 1 })),
    )
    expect(new Set(await sleeper.notifications())).toEqual(new Set([queue]))
  })

  test('enqueues by a trigger on a table of its own', async ({ database, producer, queue }) => {
    await database.sql(`
      CREATE TABLE bought (id integer);
      CREATE FUNCTION enqueue_bought() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN PERFORM sluice.enqueue('${queue}', to_jsonb(new.id)); RETURN NULL; END $$;
      CREATE TRIGGER bought AFTER INSERT ON bought FOR EACH ROW EXECUTE FUNCTION enqueue_bought();
      GRANT INSERT ON bought TO ${producer.name}`)
    await producer.sql('INSERT INTO bought VALUES (7)')
    expect(await database.sql('SELECT payload FROM sluice.messages WHERE queue = $1', [queue])).toEqual([
      { payload: 7 },
    ])
  })

  test.for([
    'SELECT payload FROM sluice.message',
    'SELECT count(*) FROM sluice.message WHERE queue IS NOT NULL',
    `INSERT INTO sluice.message (queue, payload, id) VALUES ('q', '1', 1)`,
    `INSERT INTO sluice.message (queue, payload, attempt) VALUES ('q', '1', 2147483647)`,
    'DELETE FROM sluice.message',
    'SELECT FROM sluice.messages',
    `SELECT sluice.redrive('q')`,
    `SELECT sluice.peek('q')`,
  ])('may not %s', async (text, { producer }) => {
    await expect(producer.sql(text)).rejects.toEqual(REFUSED)
  })

  test('may not work', async ({ producer }) => {
    await expect(startTestSluice(producer).start()).rejects.toMatchObject({ cause: REFUSED })
  })
})

describe('a member of sluice_worker', () => {
  test.for([
    ['', ''],
    ['plan_cache_mode', 'force_custom_plan'],
    ['plan_cache_mode', 'force_generic_plan'],
    ['search_path', "''"],
    ['default_transaction_isolation', "'repeatable read'"],
    ['lock_timeout', "'10s'"],
  ])('claims and settles in every way, with %s %s', async ([setting, value], { database, worker, producer, queue }) => {
    if (setting !== '') {
      await database.sql(`ALTER ROLE ${worker.name} SET ${setting} = ${value}`)
      onTestFinished(async () => void (await database.sql(`ALTER ROLE ${worker.name} RESET ALL`)))
    }
    const ids = await fill(startTestSluice(producer), queue)
    const sluice = startTestSluice(worker)
    const log = new EventLog(sluice.events)
    handleAll(sluice, queue)
    await waitFor(async () => (await statesOf(database, queue)).join() === 'dead,dead,retrying,retrying,scheduled', {
      what: 'every message to be settled',
    })
    expect(log.all.filter((event) => 'error' in event && event.error instanceof Error)).toEqual([])
    const acked = await effectsOf(database, ids)
    expect(acked.map(({ id }) => id)).toEqual([ids[0], ids[1], ids[2], ids[3]])
  })

  test('works on a whole queue in order, by batches, and by deliveries', async ({
    database,
    worker,
    producer,
    queue,
  }) => {
    const writer = startTestSluice(producer)
    const sluice = startTestSluice(worker)
    const seen: unknown[] = []
    const batches = sluice
      .pipeline(queue, { ordered: true })
      .handleBatch((messages) => void seen.push(...messages.map(({ payload }) => payload)))
      .subscribe()
    await put(writer, queue, [1, 2, 3])
    await untilEmpty(database, queue)
    await batches.drain()
    await put(writer, queue, [4])
    for await (const delivery of sluice.deliveries(queue, { demand: 1 })) {
      seen.push(delivery.message.payload)
      await delivery.ack()
      break
    }
    expect(seen).toEqual([1, 2, 3, 4])
  })

  test('cancels the statement of a handler that takes too long', async ({ database, worker, producer, queue }) => {
    const sluice = startTestSluice(worker)
    const log = new EventLog(sluice.events)
    sluice
      .pipeline(queue, { timeout: 100, retry: SLOW })
      .handle(async (_, { tx }) => void (await tx.query('SELECT pg_sleep(60)')))
      .subscribe()
    await put(startTestSluice(producer), queue, [1])
    await log.first('message.failed')
    expect(log.of('batch.released')).toEqual([])
    const sleeping = `SELECT FROM pg_stat_activity WHERE usename = $1 AND state = 'active' AND query LIKE '%pg_sleep%'`
    expect(await database.sql(sleeping, [worker.name])).toEqual([])
  })

  test('is told what its own sessions do, and not what those of others do', async ({ database, worker }) => {
    const work = async (pool: pg.Pool) => {
      const client = await pool.connect()
      onTestFinished(() => client.release())
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      const pid = rows[0]!.pid
      const idle = await workOf(executeOn(worker.pool), pid, 0)
      await client.query('BEGIN')
      const sleep = client.query('SELECT pg_sleep(60)').catch(() => undefined)
      const state = `SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep'`
      await waitFor(async () => (await database.sql(state, [pid])).length === 1, { what: 'the statement' })
      const busy = await workOf(executeOn(worker.pool), pid, 0)
      await database.sql('SELECT pg_cancel_backend($1)', [pid])
      await sleep
      await client.query('ROLLBACK')
      return { idle, busy }
    }
    expect(await work(worker.pool)).toEqual({ idle: 'none', busy: 'busy' })
    expect(await work(database.pool)).toEqual({ idle: 'unknown', busy: 'unknown' })
  })

  test('finds the evidence of a crash, and buries who is to blame', async ({ database, worker, producer, queue }) => {
    const [id] = await put(startTestSluice(producer), queue, [{ kill: true }])
    const dying = await WorkerProcess.start(worker, queue, { crashLimit: 1 })
    expect(await dying.ended).toBe('SIGKILL')
    await WorkerProcess.start(worker, queue, { crashLimit: 1 })
    await waitFor(async () => (await statesOf(database, queue)).join() === 'dead', { what: 'the dead letter' })
    expect(await database.sql('SELECT id, reason FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([
      { id, reason: 'crashed: 1 processes died or hung while they handled this message' },
    ])
    expect(await database.sql('SELECT FROM sluice.crash WHERE queue = $1', [queue])).toEqual([])
  })

  test('sleeps, wakes up, and comes back when its connections are lost', async ({
    database,
    worker,
    producer,
    queue,
  }) => {
    const sluice = startTestSluice(worker, { pollInterval: 60_000 })
    const log = new EventLog(sluice.events)
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await waitFor(() => flagIsUp(database, queue), { what: 'the waiting flag' })
    await put(startTestSluice(producer), queue, [1])
    await untilEmpty(database, queue)
    await database.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, [worker.name])
    await log.first('connection.restored', ({ role }) => role === 'control')
    await log.first('connection.restored', ({ role }) => role === 'listener')
    await put(startTestSluice(producer), queue, [2])
    await untilEmpty(database, queue)
  })

  test('may enqueue in its handlers only as a member of sluice_producer too', async ({
    database,
    worker,
    login,
    queue,
  }) => {
    const both = await login('sluice_worker', 'sluice_producer')
    for (const who of [worker, both]) await put(startTestSluice(both), `${queue}.${who.name}`, [1])
    const outcomes = [worker, both].map((who) => enqueueByHandler(who, `${queue}.${who.name}`, queue))
    expect(await Promise.all(outcomes)).toEqual([
      expect.stringMatching(/permission denied for function insert_plain/),
      'acked',
    ])
    expect(await statesOf(database, queue)).toEqual(['ready'])
  })

  test('sees how things are by the command line, and no dead letter', async ({ worker }) => {
    const env = { DATABASE_URL: worker.url }
    expect(await runCli(['status'], env)).toMatchObject({ code: 0, stderr: '' })
    expect(await runCli(['status', '--queue', 'nowhere'], env)).toMatchObject({ code: 0 })
    expect(await runCli(['dead', 'list'], env)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('permission denied'),
    })
  })

  test.for([
    `UPDATE sluice.message SET payload = '1'`,
    `UPDATE sluice.message SET queue = 'q'`,
    `SELECT sluice.enqueue('q', '1')`,
    'SELECT queue FROM sluice.dead_letter',
    'DELETE FROM sluice.dead_letter',
    'DELETE FROM sluice.slot',
    'TRUNCATE sluice.batch_record',
  ])('may not %s', async (text, { worker }) => {
    await expect(worker.sql(text)).rejects.toEqual(REFUSED)
  })
})

describe('a member of sluice_reader', () => {
  test('reads every view and peeks, and by the command line sees all', async ({ database, login, queue }) => {
    const reader = await login('sluice_reader')
    await database.sql('SELECT sluice.enqueue($1, $2)', [queue, { a: 1 }])
    const [dead] = await bury(database, { queue })
    for (const view of ['queues', 'messages', 'in_flight', 'workers', 'dead_letters']) {
      await reader.sql(`SELECT * FROM sluice.${view}`)
    }
    expect(await reader.sql('SELECT payload FROM sluice.peek($1)', [queue])).toEqual([{ payload: { a: 1 } }])
    const commands = [
      ['status', '--json'],
      ['peek', queue],
      ['dead', 'list'],
      ['dead', 'get', queue, dead ?? ''],
    ]
    for (const command of commands) {
      expect(await runCli(command, { DATABASE_URL: reader.url })).toMatchObject({ code: 0, stderr: '' })
    }
    for (const command of ['redrive', 'delete']) {
      expect(await runCli(['dead', command, queue, '--yes'], { DATABASE_URL: reader.url })).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('permission denied'),
      })
    }
    expect(await statesOf(database, queue)).toEqual(['dead', 'ready'])
  })

  test('looks at everything by sluice.operate, and changes nothing', async ({ database, login, queue }) => {
    const { operate } = startTestSluice(await login('sluice_reader'))
    const [dead = ''] = await bury(database, { queue })
    await database.sql(`SELECT sluice.enqueue($1, '1', ordering_key => 'k')`, [queue])
    const looks: readonly Promise<unknown>[] = [
      operate.now(),
      operate.status(),
      operate.queues.list(),
      operate.queues.names(),
      operate.messages.list({ queue, orderingKey: 'k', held: false }),
      operate.messages.list({ queue, state: 'ready', order: 'oldest' }),
      operate.messages.get(queue, dead),
      operate.messages.peek(queue),
      operate.workers.inFlight(),
      operate.workers.list(),
      operate.deadLetters.list(),
      operate.deadLetters.get(queue, dead),
      operate.deadLetters.summarise(),
    ]
    await Promise.all(looks)
    await expect(operate.deadLetters.redrive({ queue })).rejects.toEqual(lacks('sluice_operator'))
    await expect(operate.deadLetters.delete({ queue })).rejects.toEqual(lacks('sluice_admin'))
    expect(await statesOf(database, queue)).toEqual(['dead', 'ready'])
  })
})

describe('a member of sluice_worker, in a queue that keeps its history,', () => {
  test.for(['transactional', 'leased'] as const)(
    'writes it, cannot read it, and makes passes of maintenance: %s',
    async (mode, { database, worker, queue }) => {
      const owner = startTestSluice(database)
      await owner.operate.queues.settings.set(queue, { history: '1d' })
      const [id = ''] = await put(owner, queue, [1])
      const sluice = startTestSluice(worker)
      const pipeline =
        mode === 'leased'
          ? sluice.pipeline(queue, { mode }).handle(() => undefined)
          : sluice.pipeline(queue).handle(() => undefined)
      await pipeline.runOnce()
      expect(await owner.operate.history.get(queue, id)).toMatchObject({ id, attempt: 1 })
      await expect(worker.sql('SELECT id FROM sluice.completed_message')).rejects.toEqual(REFUSED)
      expect(await sluice.operate.maintain()).toMatchObject({ finished: true })
    },
  )
})

describe('a member of sluice_operator', () => {
  test('makes passes of maintenance and reads the history', async ({ database, login, queue }) => {
    const { operate } = startTestSluice(await login('sluice_operator'))
    await startTestSluice(database).operate.queues.settings.set(queue, { history: '1d' })
    expect(await operate.maintain()).toMatchObject({ finished: true })
    expect(await operate.history.list({ queue })).toEqual({ messages: [], next: null })
  })

  test('redrives dead letters, and wakes a pipeline that sleeps', async ({ database, login, queue }) => {
    const operator = await login('sluice_operator')
    const ids = await bury(database, { queue, count: 3 })
    await using sleeper = await sleepOn(database.url, queue)
    const redrive = ['dead', 'redrive', queue, '--id', ids[0] ?? '', '--yes']
    expect(await runCli(redrive, { DATABASE_URL: operator.url })).toMatchObject({ code: 0, stderr: '' })
    expect(await operator.sql('SELECT sluice.redrive($1, $2)', [queue, ids.slice(1, 2)])).toEqual([{ redrive: '1' }])
    const { operate } = startTestSluice(operator)
    expect(await operate.deadLetters.redrive({ queue })).toBe(1)
    expect(await statesOf(database, queue)).toEqual(['ready', 'ready', 'ready'])
    expect(await sleeper.notifications()).toContain(queue)
  })

  test('pauses, resumes, reschedules, runs now and cancels', async ({ database, login, queue }) => {
    const { operate } = startTestSluice(await login('sluice_operator'))
    const [first = '', second = ''] = await put(startTestSluice(database), queue, [1, 2])
    expect(await operate.queues.pause(queue)).toBe(true)
    expect(await operate.queues.resume(queue)).toBe(true)
    expect(await operate.messages.reschedule(queue, first, { delay: '1h' })).toMatchObject({ result: 'changed' })
    expect(await operate.messages.runNow(queue, first)).toMatchObject({ result: 'changed' })
    expect(await operate.messages.cancel(queue, second)).toMatchObject({ result: 'cancelled' })
  })

  test('is noted with the login, whatever name is given, where no role can change it', async ({
    database,
    login,
    queue,
  }) => {
    const operator = await login('sluice_operator')
    const admin = await login('sluice_admin')
    const reader = startTestSluice(await login('sluice_reader'))
    const [id = ''] = await put(startTestSluice(database), queue, [1])
    await startTestSluice(operator).operate.by('ada').messages.cancel(queue, id)
    expect(await reader.operate.audit.list({ queue })).toMatchObject({
      actions: [{ actor: 'ada', login: operator.name, action: 'message.cancel', messageIds: [id] }],
    })
    for (const { sql } of [operator, admin]) {
      for (const text of [
        'DELETE FROM sluice.action',
        `UPDATE sluice.audit SET actor = 'bob'`,
        `SELECT sluice_private.note_action('queue.pause', 'q', 1)`,
      ]) {
        await expect(sql(text)).rejects.toEqual(REFUSED)
      }
    }
    await expect(startTestSluice(operator).operate.audit.keep('1d')).rejects.toEqual(lacks('sluice_admin'))
    await startTestSluice(admin).operate.audit.keep('400d')
    expect(await reader.operate.audit.keep()).toBe(34_560_000_000)
  })

  test('may not change what a message or a setting says, nor clear, nor delete dead letters', async ({
    database,
    login,
    queue,
  }) => {
    const { operate } = startTestSluice(await login('sluice_operator'))
    const [waiting = ''] = await put(startTestSluice(database), queue, [1])
    await bury(database, { queue })
    const refused = [
      () => operate.messages.change(queue, waiting, { payload: 2 }),
      () => operate.queues.clear(queue),
      () => operate.queues.move(queue, `${queue}.to`),
      () => operate.queues.settings.set(queue, { maxAttempts: 5 }),
      () => operate.deadLetters.delete({ queue }),
      () => operate.schedules.set('mine', { every: '1h', queue, payload: 1 }),
    ]
    for (const change of refused) await expect(change()).rejects.toEqual(lacks('sluice_admin'))
    expect(await statesOf(database, queue)).toEqual(['dead', 'ready'])
  })

  test('may not work, enqueue, nor write to a table, not even a dead letter back as another message', async ({
    login,
  }) => {
    const operator = await login('sluice_operator')
    await expect(startTestSluice(operator).start()).rejects.toMatchObject({ cause: REFUSED })
    for (const text of [
      `SELECT sluice.enqueue('q', '1')`,
      `INSERT INTO sluice.message (queue, payload) VALUES ('q', '1')`,
      'DELETE FROM sluice.message',
      'DELETE FROM sluice.dead_letter',
      'SELECT payload FROM sluice.message',
    ]) {
      await expect(operator.sql(text)).rejects.toEqual(REFUSED)
    }
  })
})

describe('a member of sluice_admin', () => {
  test('changes messages and settings, clears, and deletes dead letters', async ({ database, login, queue }) => {
    const { operate } = startTestSluice(await login('sluice_admin'))
    const [waiting = ''] = await put(startTestSluice(database), queue, [1])
    await bury(database, { queue, count: 2 })
    expect(await operate.messages.change(queue, waiting, { payload: 2 })).toMatchObject({ result: 'changed' })
    await operate.queues.settings.set(queue, { maxAttempts: 5 })
    expect(await operate.queues.move(queue, `${queue}.to`)).toMatchObject({ moved: 1 })
    expect(await operate.queues.move(`${queue}.to`, queue)).toMatchObject({ moved: 1 })
    expect(await operate.queues.clear(queue)).toBe(1)
    expect(await operate.deadLetters.delete({ queue })).toBe(2)
    expect(await statesOf(database, queue)).toEqual([])
  })

  test('may not work, enqueue, nor write a message', async ({ login }) => {
    const admin = await login('sluice_admin')
    await expect(startTestSluice(admin).start()).rejects.toMatchObject({ cause: REFUSED })
    for (const text of [
      `SELECT sluice.enqueue('q', '1')`,
      `INSERT INTO sluice.message (queue, payload) VALUES ('q', '1')`,
    ]) {
      await expect(admin.sql(text)).rejects.toEqual(REFUSED)
    }
  })
})

/** Four to acknowledge, two of them with a key; two to retry, one with a key; one to snooze, two to die. */
async function fill(sluice: Sluice, queue: string): Promise<readonly string[]> {
  const plain = await put(sluice, queue, ['ack', 'ack'])
  const keyed = await put(sluice, queue, ['ack', 'ack'], { orderingKey: 'a' })
  await put(sluice, queue, ['throw', 'snooze', 'bury'])
  await put(sluice, queue, ['retry'], { orderingKey: 'b' })
  await put(sluice, queue, ['throw'], { maxAttempts: 1 })
  return [...plain, ...keyed]
}

function handleAll(sluice: Sluice, queue: string): void {
  sluice
    .pipeline(queue, { retry: SLOW, concurrency: 2, batchSize: 3 })
    .handle(async ({ id, payload }, { tx }) => {
      await tx.query(`INSERT INTO public.effect (message_id, worker) VALUES ($1, 'worker')`, [id])
      if (payload === 'throw') throw new Error('on purpose')
      if (payload === 'retry') return retryLater()
      if (payload === 'snooze') return snooze({ after: '1h' })
      return payload === 'bury' ? deadLetter('on purpose') : undefined
    })
    .subscribe()
}

async function enqueueByHandler(who: Login, queue: string, target: string): Promise<string> {
  const sluice = startTestSluice(who)
  const log = new EventLog(sluice.events)
  sluice
    .pipeline(queue, { retry: SLOW })
    .handle(async (_, { enqueue }) => void (await enqueue(target, 2)))
    .subscribe()
  const { acked } = await log.first('batch.committed')
  return acked === 1 ? 'acked' : (await log.first('message.failed')).error
}

async function statesOf(database: Pick<Login, 'sql'>, queue: string): Promise<string[]> {
  const rows = await database.sql<{ state: string }>(
    `SELECT state FROM sluice.messages WHERE queue = $1
     UNION ALL SELECT 'dead' FROM sluice.dead_letters WHERE queue = $1 ORDER BY state`,
    [queue],
  )
  return rows.map(({ state }) => state)
}

async function flagIsUp(database: Pick<Login, 'sql'>, queue: string): Promise<boolean> {
  const rows = await database.sql(
    `SELECT FROM pg_locks l WHERE l.locktype = 'advisory' AND l.classid = 746501
       AND l.objid::bigint = hashtext($1)::bigint & 4294967295 AND l.granted AND ${THIS_DATABASE}`,
    [queue],
  )
  return rows.length > 0
}

describe('a member of sluice_claimer', () => {
  test('claims, waits, looks, renews, settles in every way, releases and pops', async ({
    database,
    claimer,
    producer,
    queue,
  }) => {
    const enqueuing = startTestSluice(producer)
    const sluice = startTestSluice(claimer, { pollInterval: '1m' })
    const waits = sluice.claim(queue, { wait: '1m' })
    await raisedFlag(database, queue)
    const ids = await put(enqueuing, queue, [1])
    const waited = await waits
    expect(await waited?.settle(ids)).toEqual({ settled: ids, refused: [] })

    const more = await put(enqueuing, queue, [2, 3, 4, 5, 6])
    await put(enqueuing, queue, ['a', 'b'], { orderingKey: 'k' })
    const { id, messages } = (await sluice.claim(queue, { limit: 20 })) ?? raise()
    expect(messages).toHaveLength(6)
    const { claims } = sluice.operate
    expect((await claims.get(queue, id)).messages).toHaveLength(6)
    await claims.renew(queue, id, '2m')
    await claims.settle(queue, id, more[0]!)
    await claims.settle(queue, id, more[1]!, retryLater({ error: 'busy' }))
    await claims.settle(queue, id, more[2]!, snooze({ after: '1h' }))
    await claims.settle(queue, id, more[3]!, deadLetter('bad'))
    expect(await claims.release(queue, id)).toBe(2)
    expect(await sluice.pop(queue, { limit: 20 })).toHaveLength(2)
    expect((await sluice.pop(queue)).map(({ payload }) => payload)).toEqual(['b'])
  })

  test.for([
    'SELECT FROM sluice.message',
    'SELECT FROM sluice.claims',
    'SELECT FROM sluice.messages',
    'DELETE FROM sluice.claim',
    `SELECT sluice_private.lock_due('q', 1, true)`,
    `SELECT sluice_private.dead_letter_locked('q', '{1}', '{1}', '{a}', '{a}')`,
    `SELECT sluice.enqueue('q', '1')`,
    `SELECT sluice.redrive('q')`,
    `SELECT sluice.peek('q')`,
  ])('may not %s', async (text, { claimer }) => {
    await expect(claimer.sql(text)).rejects.toEqual(REFUSED)
  })

  test('is what a login lacks that may not claim, says the error', async ({ producer, queue }) => {
    await expect(startTestSluice(producer).claim(queue)).rejects.toMatchObject({
      code: 'PRIVILEGE_MISSING',
      message: expect.stringContaining('GRANT sluice_claimer TO'),
    })
  })
})

describe('before roles are made', () => {
  test('PUBLIC may not call what runs with the rights of the owner', async ({ database }) => {
    const fresh = await createTestDatabase()
    onTestFinished(() => fresh[Symbol.asyncDispose]())
    expect(fresh.url).not.toBe(database.url)
    const rows = await fresh.sql(
      `SELECT p.proname FROM pg_proc p WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosecdef
         AND has_function_privilege('public', p.oid, 'EXECUTE')`,
    )
    expect(rows).toEqual([])
  })
})
