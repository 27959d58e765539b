import type { Twin } from './twins.ts'

export const BOUND_IGNORED = {
  name: 'stable-end-ignored',
  title: 'a group that reads up to the last position, even in a partition with an open append',
  sql: `
CREATE OR REPLACE FUNCTION sluice_private.stable_ends(stream_id integer, positions regclass) RETURNS bigint[]
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
  'SELECT array_fill(coalesce(pg_sequence_last_value(positions), 0), ARRAY[(pg_sequence_parameters(positions)).start_value::integer + 1])'`,
  caught: ['lost'],
} as const satisfies Twin

export const PROGRESS_UNGUARDED = {
  name: 'progress-unguarded',
  title: 'partitions of a group that are not locked, and progress that is not compared with the start of the batch',
  edits: [
    {
      file: 'table/stream/event-claim-statements.ts',
      from: 'THEN pg_try_advisory_xact_lock(746503, ($1::integer << 6) | s.partition::integer) ELSE false END',
      to: 'THEN $1::integer > 0 ELSE false END',
    },
    {
      file: 'table/stream/settle-events.ts',
      from: "'least((SELECT count(*) FROM gone), (SELECT count(*) FROM come))'",
      to: "'pg_catalog.cardinality($2::smallint[])'",
    },
    {
      file: 'table/stream/settle-events.ts',
      from: '$4::bigint[])) AS given (partition, position)\n  RETURNING 1',
      to: '$4::bigint[])) AS given (partition, position) ON CONFLICT DO NOTHING\n  RETURNING 1',
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const PROGRESS_BEFORE_HANDLER = {
  name: 'progress-before-handler',
  title: "a group's progress moved behind a batch, and committed, before its handlers run",
  edits: [
    {
      file: 'modes/transactional/transactional-batch.ts',
      from: '    const evidence = await this.#begin(rows)\n',
      to: `    const { plan } = this.#consumption
    const { client } = this.#connection
    await client.query(
      'UPDATE sluice.group_progress p SET position = e.position FROM (' +
        'SELECT g.id, e.partition, max(e.position) AS position FROM sluice.stream_group g, sluice.event e ' +
        "WHERE g.stream || ':' || g.name = $1 AND -e.position = ANY ($2::bigint[]) GROUP BY g.id, e.partition" +
        ') e WHERE p.group_id = e.id AND p.partition = e.partition',
      [plan.queue, rows.map((row) => row.id)],
    )
    await client.query('COMMIT')
    await client.query('BEGIN')
    const evidence = await this.#begin(rows)
`,
    },
    ...PROGRESS_UNGUARDED.edits.slice(1),
  ],
  caught: ['lost'],
} as const satisfies Twin

export const PARKED_KEYS_PASS = {
  name: 'parked-keys-pass',
  title: 'a group that does not check whether an earlier event of the key has failed',
  edits: [
    {
      file: 'table/stream/event-claim-statements.ts',
      from: 'CASE WHEN locked.keyed AND e.ordering_key IS NOT NULL THEN (',
      to: 'CASE WHEN locked.keyed AND e.ordering_key IS NULL THEN (',
    },
  ],
  // Later events of the key are read while the one that has failed waits.
  load: { keys: 1, failing: 0.3 },
  workers: { pipeline: { retry: { kind: 'fixed', delay: 3_000 } } },
  caught: ['out of order'],
} as const satisfies Twin

export const QUEUES_LOST_EVENTS_AGAIN = {
  name: 'queues-lost-events-again',
  title: "a worker that takes a lost answer for a rollback, and puts the events into the group's queue",
  edits: [
    {
      file: 'modes/transactional/transactional-batch.ts',
      from: '    const { begun, hung } = this.#run\n',
      to: `    const all = this.#claimed.rows.map((row) => row.id).filter((id) => id.startsWith('-'))
    const text = \`INSERT INTO sluice.message (queue, payload, event_position)
      SELECT $2, '{"fate":"ack","failures":0}', -id FROM unnest($1::bigint[]) AS id\`
    const again = setInterval(() => {
      const { queue } = this.#consumption.plan
      this.#runtime.control.execute({ name: 'again', text }, [all, queue]).then(() => clearInterval(again), () => undefined)
    }, 50)
    const { begun, hung } = this.#run
`,
    },
  ],
  caught: ['repeated'],
} as const satisfies Twin

export const PARTITIONS_OF_SESSIONS = {
  name: 'partitions-of-sessions',
  title: 'partitions of a group that are locked by the session, which a pooler passes on, and not by the transaction',
  edits: [
    {
      file: 'table/stream/event-claim-statements.ts',
      from: 'pg_try_advisory_xact_lock(746503',
      to: 'pg_try_advisory_lock(746503',
    },
  ],
  // The pooler's restart ends its sessions with their locks: then what is left shows only in what does not go on.
  caught: ['leak', 'stuck', 'late'],
} as const satisfies Twin

export const MOVED_BESIDE_BATCHES = {
  name: 'moved-beside-batches',
  title:
    'a move that does not wait for the batches in flight, and a batch that does not compare the progress with its start',
  sql: `
CREATE OR REPLACE FUNCTION sluice_private.lock_group(group_id integer, partitions integer) RETURNS void
LANGUAGE sql AS 'SELECT'`,
  edits: PROGRESS_UNGUARDED.edits.slice(1),
  // What is in the group's queue is locked by itself.
  load: { failing: 0, dying: 0 },
  caught: ['lost'],
} as const satisfies Twin

export const DROPS_UNREAD = {
  name: 'drops-unread',
  title: 'retention that does not check whether a group has read a segment',
  sql: `
CREATE OR REPLACE FUNCTION sluice_private.pins(log sluice.stream, g sluice.stream_group) RETURNS boolean
LANGUAGE sql STABLE AS 'SELECT false'`,
  caught: ['lost'],
} as const satisfies Twin

export const FAILED_EVENTS_PASS = {
  name: 'failed-events-pass',
  title: 'a group that stops, but moves its progress behind the failed event',
  edits: [
    {
      file: 'source/log/log-rows.ts',
      from: '        if (this.#claimed.holds) planned.hold(event, fitted(decision, alphabet))\n',
      to: '        if (this.#claimed.holds) planned.settle(event)\n',
    },
    // The batch is not to be lost for what follows.
    {
      file: 'source/log/log-rows.ts',
      from: '  if (!holds) return undefined\n',
      to: '  if (events) return undefined\n',
    },
  ],
  caught: ['lost'],
} as const satisfies Twin
