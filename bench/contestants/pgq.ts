import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Consumer, Contestant, FillSpec, FollowSpec } from '../contestant.ts'

/**
 * The log of Skytools, in its best form for this: what it has in a batch is fixed by its ticks, so the events are filled in with a
 * tick after each batch, as its daemon would make them under such a load.
 */
export const pgq: Contestant = {
  name: 'pgq',
  title: 'PgQ 3.5',
  guarantee:
    'Read, work and position are one transaction, exactly once; a failed event is tried again without its order',
  onlyIn: 'stream-pgq',
  database: 'pgq',
  install,
  tables: ['pgq.retry_queue'],
  fill,
  unsettled,
  follows: {
    configuration:
      'pg with pipeline: true; get_batch_events, then finish_batch, COMMIT, BEGIN and the next next_batch sent at once; prepared ' +
      'statements; a tick after as many events as a batch has',
    run: follow,
  },
}

const QUEUE = 'bench'
const consumerOf = (group: number) => `group-${group}`

async function install(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query("SELECT FROM pg_available_extensions WHERE name = 'pgq'")
  if (rows.length === 0) throw new Error('The server has no extension pgq: install postgresql-15-pgq3 for Debian')
  await client.query('CREATE EXTENSION IF NOT EXISTS pgq')
  await client.end()
}

async function fill(client: pg.Client, { messages, bytes = 0, log }: FillSpec): Promise<void> {
  const { groups, batchSize = 100 } = log ?? { groups: 1 }
  const { rows } = await client.query('SELECT queue_name FROM pgq.queue WHERE queue_name = $1', [QUEUE])
  if (rows.length > 0) await client.query('SELECT pgq.drop_queue($1, true)', [QUEUE])
  await client.query('SELECT pgq.create_queue($1)', [QUEUE])
  // A tick whenever it is asked for one.
  for (const setting of ['ticker_max_lag', 'ticker_idle_period'])
    await client.query('SELECT pgq.set_queue_config($1, $2, $3)', [QUEUE, setting, '0'])
  for (let group = 0; group < groups; group++)
    await client.query('SELECT pgq.register_consumer($1, $2)', [QUEUE, consumerOf(group)])
  for (let from = 1; from <= messages; from += batchSize) {
    await client.query(
      `SELECT count(pgq.insert_event($1, 'event', jsonb_build_object('n', n, 'text', repeat('x', $4::integer))::text))
       FROM generate_series($2::integer, $3::integer) AS n`,
      [QUEUE, from, Math.min(from + batchSize - 1, messages), bytes],
    )
    await client.query('SELECT pgq.ticker($1)', [QUEUE])
  }
  // The tables of its events are made with the queue, so the harness does not know them.
  await client.query('VACUUM (ANALYZE)')
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    'SELECT coalesce(sum(pending_events), 0) AS count FROM pgq.get_consumer_info($1)',
    [QUEUE],
  )
  return Number(rows[0]?.count)
}

async function follow(url: string, spec: FollowSpec): Promise<Consumer> {
  const stopping = new AbortController()
  const loops = Array.from({ length: spec.groups }, (_, group) => loop(url, spec, consumerOf(group), stopping.signal))
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

const NEXT = 'SELECT pgq.next_batch($1, $2) AS batch'
const EVENTS = 'SELECT ev_id::text, ev_time, ev_type, ev_data, ev_extra1 FROM pgq.get_batch_events($1)'
const FINISH = 'SELECT pgq.finish_batch($1)'
const IDLE_MS = 10

interface EventRow {
  readonly ev_data: string
}

async function loop(url: string, { onSettled }: FollowSpec, consumer: string, stopping: AbortSignal): Promise<void> {
  const client = new pg.Client({ connectionString: url, pipeline: true })
  await client.connect()
  const begin = async () => {
    const begun = client.query('BEGIN')
    const found = client.query<{ batch: string | null }>({ name: 'next', text: NEXT, values: [QUEUE, consumer] })
    await begun
    return (await found).rows[0]?.batch ?? null
  }
  let next = begin()
  while (!stopping.aborted) {
    const batch = await next
    if (batch === null) {
      await client.query('ROLLBACK')
      await sleep(IDLE_MS)
      next = begin()
      continue
    }
    const { rows } = await client.query<EventRow>({ name: 'events', text: EVENTS, values: [batch] })
    for (const { ev_data: data } of rows) JSON.parse(data)
    const finished = client.query({ name: 'finish', text: FINISH, values: [batch] })
    const committed = client.query('COMMIT')
    next = begin()
    const [, { command }] = await Promise.all([finished, committed])
    if (command !== 'COMMIT') throw new Error(`COMMIT answered by ${command}`)
    onSettled(rows.length)
  }
  await next
  await client.query('ROLLBACK')
  await client.end()
}
