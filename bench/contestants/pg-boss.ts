import type pg from 'pg'
import { PgBoss } from 'pg-boss'
import type { Consumer, ConsumeSpec, Contestant, FillSpec } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { versionOf } from './version-of.ts'

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
      "the handlers' writes in one transaction of its pool (beginTransaction, complete with { db })",
    run: consume,
  },
}

/** As it comes, without the clock for cron jobs, which nobody else here has. */
async function start(url: string): Promise<PgBoss> {
  const boss = new PgBoss({ connectionString: url, schedule: false })
  boss.on('error', (error) => {
    throw error
  })
  return boss.start()
}

/** The columns that its own insert statement would not leave to their defaults. */
async function fill(client: pg.Client, spec: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO pgboss.job (name, policy, retry_delay, data, created_on)
     SELECT 'bench', 'standard', 0, jsonb_build_object('n', n), clock_timestamp()
     FROM generate_series(1, $1::integer) AS n`,
    [spec.messages],
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
    if (ids.length === 0) await new Promise((resolve) => setTimeout(resolve, IDLE_MS))
    else if (spec.work.kind === 'nothing') await boss.complete('bench', ids)
    else await completeWithEffects(boss, ids, spec.work)
    spec.onSettled(ids.length)
  }
}

async function completeWithEffects(boss: PgBoss, ids: string[], { kind }: ConsumeSpec['work']): Promise<void> {
  const transaction = await boss.getDb().beginTransaction?.()
  if (transaction === undefined) throw new Error('Expected a pool that begins transactions')
  if (kind === 'insert batch') await transaction.db.executeSql(INSERT_EFFECTS, [ids])
  else for (const id of ids) await transaction.db.executeSql(INSERT_EFFECT, [id])
  await boss.complete('bench', ids, null, { db: transaction.db })
  await transaction.commit()
}
