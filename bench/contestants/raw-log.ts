import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Consumer, Contestant, Enqueuer, FillSpec, FollowSpec } from '../contestant.ts'
import { openWriter } from './writer.ts'

/** As many as a stream has as it comes. */
const SLOTS = 16

/**
 * What a user could write by hand: a plain table of the shape of a stream, and loops that read it in order and store their positions in
 * the same transaction. No retries, no wake-up, and it passes over what commits late.
 */
export const rawLog: Contestant = {
  name: 'raw-log',
  title: 'By hand, a log',
  guarantee: 'Read, work and position are one transaction, exactly once; but what commits late is passed over',
  install,
  tables: ['raw_log.event', 'raw_log.progress'],
  fill,
  unsettled,
  appends: {
    configuration:
      'INSERT … RETURNING position into a table with the columns and the primary key of a stream, in 16 slots',
    run: append,
  },
  follows: {
    configuration:
      'pg with pipeline: true; SELECT … WHERE slot = and position > ORDER BY position LIMIT, the UPDATE of the position, COMMIT, BEGIN and the ' +
      'next SELECT sent at once; prepared statements; each member has a slot of its own',
    run: follow,
  },
}

const CREATE = `
CREATE SCHEMA IF NOT EXISTS raw_log;
CREATE TABLE IF NOT EXISTS raw_log.event (
  slot           smallint    NOT NULL,
  position       bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  ordering_key   text,
  type           text,
  schema_version integer     NOT NULL DEFAULT 1,
  payload        jsonb       NOT NULL,
  headers        jsonb       NOT NULL DEFAULT '{}',
  appended_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (slot, position)
);
CREATE TABLE IF NOT EXISTS raw_log.progress (
  reader integer, slot smallint, position bigint NOT NULL, PRIMARY KEY (reader, slot)
) WITH (fillfactor = 50)`

const INSERT_ONE = `
INSERT INTO raw_log.event (slot, payload) VALUES (floor(random() * ${SLOTS}), $1::text::jsonb) RETURNING position`
const INSERT_MANY = `
INSERT INTO raw_log.event (slot, payload) SELECT (n / 100) % ${SLOTS}, payload::jsonb
FROM unnest($1::text[]) WITH ORDINALITY AS given (payload, n) RETURNING position`

const READ = `
SELECT position::text, ordering_key, type, schema_version, payload::text, headers::text, appended_at FROM raw_log.event e
WHERE slot = $1 AND position > $2 ORDER BY e.position LIMIT $3`
const MOVE = 'UPDATE raw_log.progress SET position = $3 WHERE reader = $1 AND slot = $2'
const STORED = 'SELECT position::text FROM raw_log.progress WHERE reader = $1 AND slot = $2'
const IDLE_MS = 10

async function install(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  await client.query(CREATE)
  await client.end()
}

async function fill(client: pg.Client, { messages, bytes, log }: FillSpec): Promise<void> {
  const { groups, inFlight } = log ?? { groups: 1, inFlight: SLOTS }
  await begin(client, groups, inFlight)
  await client.query(
    `INSERT INTO raw_log.event (slot, payload)
     SELECT n % $2::integer, jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $3::integer)))
     FROM generate_series(1, $1::integer) AS n`,
    [messages, inFlight, bytes],
  )
}

async function begin(client: pg.Client, readers: number, slots: number): Promise<void> {
  await client.query(
    `INSERT INTO raw_log.progress SELECT reader, slot, 0
     FROM generate_series(0, $1::integer - 1) reader, generate_series(0, $2::integer - 1) slot ON CONFLICT DO NOTHING`,
    [readers, slots],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(
    `SELECT count(*) FROM raw_log.progress p JOIN raw_log.event e ON e.slot = p.slot AND e.position > p.position`,
  )
  return Number(rows[0]?.count)
}

async function append(url: string, groups: number): Promise<Enqueuer> {
  const client = new pg.Client(url)
  await client.connect()
  await begin(client, groups, SLOTS)
  await client.end()
  return {
    open: () =>
      openWriter(url, {
        one: (writer, message) => writer.query(INSERT_ONE, [JSON.stringify(message)]),
        many: (writer, messages) => writer.query(INSERT_MANY, [messages.map((message) => JSON.stringify(message))]),
      }),
    stop: async () => undefined,
  }
}

async function follow(url: string, spec: FollowSpec): Promise<Consumer> {
  const stopping = new AbortController()
  const client = new pg.Client(url)
  await client.connect()
  await begin(client, spec.groups, spec.inFlight)
  await client.end()
  const loops = Array.from({ length: spec.groups * spec.inFlight }, (_, member) =>
    loop(url, { ...spec, reader: Math.floor(member / spec.inFlight), slot: member % spec.inFlight }, stopping.signal),
  )
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
    },
  }
}

interface LoopSpec extends FollowSpec {
  readonly reader: number
  readonly slot: number
}

interface ReadRow {
  readonly position: string
  readonly payload: string
  readonly headers: string
}

async function loop(
  url: string,
  { reader, slot, batchSize, onSettled }: LoopSpec,
  stopping: AbortSignal,
): Promise<void> {
  const client = new pg.Client({ connectionString: url, pipeline: true })
  await client.connect()
  const read = (after: string) => readNext(client, [slot, after, batchSize])
  const { rows: stored } = await client.query<{ position: string }>(STORED, [reader, slot])
  let at = stored[0]?.position ?? '0'
  let next = read(at)
  while (!stopping.aborted) {
    const rows = await next
    const last = rows.at(-1)
    if (last === undefined) {
      await client.query('ROLLBACK')
      await sleep(IDLE_MS)
      next = read(at)
      continue
    }
    for (const { payload, headers } of rows) [payload, headers].map((text) => JSON.parse(text))
    at = last.position
    const moved = client.query({ name: 'move', text: MOVE, values: [reader, slot, at] })
    const committed = client.query('COMMIT')
    next = read(at)
    const [, { command }] = await Promise.all([moved, committed])
    if (command !== 'COMMIT') throw new Error(`COMMIT answered by ${command}`)
    onSettled(rows.length)
  }
  await next
  await client.query('ROLLBACK')
  await client.end()
}

async function readNext(client: pg.Client, values: readonly unknown[]): Promise<readonly ReadRow[]> {
  const begun = client.query('BEGIN')
  const read = client.query<ReadRow>({ name: 'read', text: READ, values: [...values] })
  await begun
  return (await read).rows
}
