import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type ConstructorOptions, PgBoss } from 'pg-boss'
import type { Consumer, ConsumeSpec, Contestant, Enqueuer, FillSpec, ListenSpec, Payload, Work } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { versionOf } from './version-of.ts'
import { openWriter } from './writer.ts'

export const pgBoss: Contestant = {
  name: 'pg-boss',
  title: `pg-boss ${versionOf('pg-boss')}`,
  guarantee:
    'The claim commits before the handler runs: if the process dies, its jobs wait until they expire (15 minutes) and ' +
    'then run again; completed jobs stay in the table for 7 days',
  install: async (url) => {
    const boss = await start(url)
    await boss.createQueue('bench', { notify: true })
    await boss.stop()
  },
  tables: ['pgboss.job'],
  fill,
  unsettled,
  consumes: {
    configuration:
      'loops of fetch({ batchSize }) and complete(ids), each on a connection of its pool; with effects, complete and ' +
      "the handlers' writes in one transaction for the batch, without savepoints (beginTransaction, complete with { db })",
    run: consume,
  },
  listens: {
    configuration:
      'useListenNotify: true, a queue with notify: true, work({ batchSize, localConcurrency, burstWhenBatchFull: true })',
    run: listen,
  },
  enqueues: {
    configuration: "send and insert with { db } in the application's transaction, a queue with notify: true",
    run: enqueue,
  },
  idles: { configuration: 'useListenNotify: true, queues with notify: true, work(queue) as it comes', run: idle },
}

/** As it comes, without the clock for cron jobs, which nobody else here has. */
async function start(url: string, options: ConstructorOptions = {}): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, schedule: false, ...options })
  boss.on('error', (error) => {
    throw error
  })
  return boss.start()
}

/** Names the columns that its own insert statement would not leave to their defaults. */
async function fill(client: pg.Client, { messages, scheduled = 0, bytes }: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO pgboss.job (name, policy, retry_delay, data, created_on, start_after)
     SELECT 'bench', 'standard', 0,
            jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $3::integer))),
            clock_timestamp(),
            clock_timestamp() + CASE WHEN n > $1 THEN interval '1 day' ELSE interval '0' END
     FROM generate_series(1, $1::integer + $2::integer) AS n`,
    [messages, scheduled, bytes],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM pgboss.job WHERE name = 'bench' AND state < 'completed'`,
  )
  return Number(rows[0]?.count)
}

const IDLE_MS = 10

async function consume(url: string, spec: ConsumeSpec): Promise<Consumer> {
  const boss = await start(url)
  const stopping = new AbortController()
  const loops = Array.from({ length: spec.inFlight }, () => loop(boss, spec, stopping.signal))
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
      await boss.stop()
    },
  }
}

async function loop(boss: PgBoss, spec: ConsumeSpec, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    const jobs = await boss.fetch('bench', { batchSize: spec.batchSize })
    const ids = jobs.map((job) => job.id)
    if (ids.length === 0) await sleep(IDLE_MS)
    else if (spec.work === 'nothing') await boss.complete('bench', ids)
    else await completeWithEffects(boss, ids, spec.work)
    spec.onSettled(ids.length)
  }
}

async function completeWithEffects(boss: PgBoss, ids: string[], work: Work): Promise<void> {
  const transaction = await boss.getDb().beginTransaction?.()
  if (transaction === undefined) throw new Error('Expected a pool that begins transactions')
  if (work === 'insert batch') await transaction.db.executeSql(INSERT_EFFECTS, [ids])
  else for (const id of ids) await transaction.db.executeSql(INSERT_EFFECT, [id])
  await boss.complete('bench', ids, null, { db: transaction.db })
  await transaction.commit()
}

/** What is handled when it stops has been completed by then, so it counts as settled. */
async function listen(url: string, spec: ListenSpec): Promise<Consumer> {
  const boss = await start(url, { useListenNotify: true })
  const options = { batchSize: spec.batchSize, localConcurrency: spec.inFlight, burstWhenBatchFull: true }
  await boss.work<Payload>('bench', options, async (jobs) => {
    for (const job of jobs) await spec.handle(job.data)
    spec.onSettled(jobs.length)
  })
  return { stop: () => boss.stop() }
}

async function enqueue(url: string): Promise<Enqueuer> {
  const boss = await start(url, { supervise: false })
  const inside = (client: pg.Client) => ({
    db: { executeSql: (text: string, values?: unknown[]) => client.query(text, values) },
  })
  return {
    open: () =>
      openWriter(url, {
        one: (client, message) => boss.send('bench', message, inside(client)),
        many: (client, messages) =>
          boss.insert(
            'bench',
            messages.map((data) => ({ data })),
            { ...inside(client), returnId: true },
          ),
      }),
    stop: () => boss.stop(),
  }
}

async function idle(url: string, queues: number): Promise<Consumer> {
  const boss = await start(url, { useListenNotify: true })
  const names = Array.from({ length: queues }, (_, queue) => `idle-${queue}`)
  for (const name of names) {
    await boss.createQueue(name, { notify: true })
    await boss.work(name, async () => undefined)
  }
  return {
    stop: async () => {
      await Promise.all(names.map((name) => boss.offWork(name)))
      for (const name of names) await boss.deleteQueue(name)
      await boss.stop()
    },
  }
}
