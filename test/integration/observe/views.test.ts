import { describe, expect } from 'vitest'
import { MESSAGE_STATES } from '../../../src/message.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { newWorkerId, recordBatches, registerWorker } from '../../../src/table/worker/worker.ts'
import { type ClaimSession, keysOf, put, test } from '../../support/rows/claim-session.ts'

describe('the views, which are a public interface,', () => {
  test('have these columns', async ({ database }) => {
    const rows = await database.sql<{ view: string; columns: string }>(
      `SELECT c.relname AS view, string_agg(a.attname || ' ' || format_type(a.atttypid, NULL), ', ' ORDER BY a.attnum) AS columns
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
       WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v'
       GROUP BY c.relname ORDER BY c.relname`,
    )
    const columns = Object.fromEntries(rows.map((row) => [row.view, row.columns.split(', ')]))
    expect(columns).toMatchInlineSnapshot(`
      {
        "audit": [
          "at timestamp with time zone",
          "id bigint",
          "actor text",
          "login text",
          "application text",
          "action text",
          "queue text",
          "subject text",
          "message_ids bigint[]",
          "count bigint",
          "details jsonb",
        ],
        "backlogs": [
          "queue text",
          "due bigint",
          "leased bigint",
          "in_flight bigint",
          "oldest_due_age interval",
          "dead bigint",
          "workers bigint",
          "concurrency integer",
          "paused_at timestamp with time zone",
          "retrying bigint",
          "held_keys bigint",
        ],
        "claims": [
          "queue text",
          "id bigint",
          "claimed_at timestamp with time zone",
          "renewed_at timestamp with time zone",
          "expires_at timestamp with time zone",
          "lease interval",
          "age interval",
          "messages integer",
        ],
        "completed": [
          "queue text",
          "id bigint",
          "state text",
          "completed_at timestamp with time zone",
          "claimed_at timestamp with time zone",
          "took interval",
          "worker text",
          "claim bigint",
          "type text",
          "schema_version integer",
          "payload jsonb",
          "headers jsonb",
          "ordering_key text",
          "priority smallint",
          "attempt integer",
          "max_attempts integer",
          "enqueued_at timestamp with time zone",
          "failed_at timestamp with time zone",
          "last_error text",
          "tenant text",
          "dedupe_key text",
          "retry_policy text",
        ],
        "dead_letters": [
          "queue text",
          "id bigint",
          "reason text",
          "error text",
          "attempt integer",
          "died_at timestamp with time zone",
          "age interval",
          "type text",
          "schema_version integer",
          "payload jsonb",
          "headers jsonb",
          "ordering_key text",
          "priority smallint",
          "max_attempts integer",
          "enqueued_at timestamp with time zone",
          "tenant text",
          "dedupe_key text",
          "event_position bigint",
          "failures jsonb",
        ],
        "endpoints": [
          "queue text",
          "name text",
          "owner text",
          "url text",
          "types text[]",
          "header_names text[]",
          "ordered boolean",
          "concurrency integer",
          "state text",
          "disabled_at timestamp with time zone",
          "disabled_by text",
          "disabled_reason text",
          "closed_until timestamp with time zone",
          "failing_since timestamp with time zone",
          "attempts bigint",
          "successes bigint",
          "last_status smallint",
          "last_error text",
          "last_success_at timestamp with time zone",
          "last_failure_at timestamp with time zone",
          "old_secret_until timestamp with time zone",
          "created_at timestamp with time zone",
          "changed_at timestamp with time zone",
          "changed_by text",
        ],
        "group_partitions": [
          "stream text",
          "name text",
          "partition smallint",
          "position bigint",
          "stable_end bigint",
          "next_position bigint",
          "unread bigint",
          "oldest_unread_age interval",
          "moved_at timestamp with time zone",
          "held_until timestamp with time zone",
          "attempt integer",
          "last_error text",
          "open_pid integer",
          "open_for interval",
          "failures jsonb",
        ],
        "groups": [
          "stream text",
          "name text",
          "queue text",
          "unread bigint",
          "oldest_unread_age interval",
          "partitions_unread bigint",
          "partitions_held_back bigint",
          "open_for interval",
          "deferred bigint",
          "dead bigint",
          "members bigint",
          "paused_at timestamp with time zone",
          "moved_at timestamp with time zone",
          "lost_from bigint",
          "lost_to bigint",
          "partitions_stopped bigint",
          "on_failure text",
          "defer_limit integer",
          "keep_unread boolean",
          "created_at timestamp with time zone",
        ],
        "held_keys": [
          "queue text",
          "ordering_key text",
          "message_id bigint",
          "attempt integer",
          "failed_at timestamp with time zone",
          "last_error text",
          "due_at timestamp with time zone",
          "messages bigint",
        ],
        "in_flight": [
          "queue text",
          "id bigint",
          "attempt integer",
          "claimed_at timestamp with time zone",
          "running_for interval",
          "batch bigint",
          "worker_id integer",
          "worker text",
          "worker_alive boolean",
          "leased_until timestamp with time zone",
          "claim bigint",
          "event_position bigint",
        ],
        "inboxes": [
          "queue text",
          "worker_id integer",
          "worker text",
          "receiver text",
          "state text",
          "side text",
          "since timestamp with time zone",
          "cause text",
          "error text",
          "retry_at timestamp with time zone",
          "as_of timestamp with time zone",
        ],
        "limits": [
          "queue text",
          "tenant text",
          "concurrency integer",
          "in_flight bigint",
          "rate integer",
          "rate_interval interval",
          "burst integer",
          "tokens double precision",
          "ready bigint",
        ],
        "messages": [
          "queue text",
          "id bigint",
          "state text",
          "type text",
          "schema_version integer",
          "payload jsonb",
          "headers jsonb",
          "ordering_key text",
          "priority smallint",
          "attempt integer",
          "max_attempts integer",
          "enqueued_at timestamp with time zone",
          "due_at timestamp with time zone",
          "expires_at timestamp with time zone",
          "failed_at timestamp with time zone",
          "last_error text",
          "tenant text",
          "dedupe_key text",
          "retry_policy text",
          "lease interval",
          "held_by bigint",
          "worker text",
          "leased_until timestamp with time zone",
          "claim bigint",
          "event_position bigint",
          "failures jsonb",
          "locked_by integer",
        ],
        "queue_settings": [
          "queue text",
          "paused_at timestamp with time zone",
          "paused_by text",
          "pause_reason text",
          "delay interval",
          "ttl interval",
          "on_expiry text",
          "max_attempts integer",
          "retry jsonb",
          "payload_limit_bytes integer",
          "history interval",
          "dead_letter_retention interval",
          "rate integer",
          "rate_per interval",
          "rate_burst integer",
          "tenant_rate integer",
          "tenant_rate_per interval",
          "tenant_rate_burst integer",
          "concurrency integer",
          "tenant_concurrency integer",
          "changed_at timestamp with time zone",
          "changed_by text",
        ],
        "queues": [
          "queue text",
          "ready bigint",
          "scheduled bigint",
          "retrying bigint",
          "in_flight bigint",
          "dead bigint",
          "oldest_ready_age interval",
          "next_due_at timestamp with time zone",
          "workers bigint",
          "expired bigint",
          "paused_at timestamp with time zone",
          "held bigint",
        ],
        "relays": [
          "queue text",
          "worker_id integer",
          "worker text",
          "destination text",
          "state text",
          "since timestamp with time zone",
          "cause text",
          "error text",
          "retry_at timestamp with time zone",
          "as_of timestamp with time zone",
        ],
        "schedules": [
          "name text",
          "queue text",
          "cron text",
          "every interval",
          "zone text",
          "next_at timestamp with time zone",
          "last_at timestamp with time zone",
          "last_enqueued_at timestamp with time zone",
          "last_id bigint",
          "enqueued bigint",
          "skipped bigint",
          "error text",
          "paused_at timestamp with time zone",
          "paused_by text",
          "pause_reason text",
          "missed text",
          "grace interval",
          "catch_up_most integer",
          "catch_up_within interval",
          "overlap boolean",
          "payload jsonb",
          "headers jsonb",
          "type text",
          "schema_version integer",
          "ordering_key text",
          "priority smallint",
          "delay interval",
          "max_attempts integer",
          "ttl interval",
          "retry_policy text",
          "lease interval",
          "tenant text",
          "created_at timestamp with time zone",
          "changed_at timestamp with time zone",
          "changed_by text",
        ],
        "streams": [
          "stream text",
          "partitions smallint",
          "head bigint",
          "trimmed_to bigint",
          "events bigint",
          "bytes bigint",
          "segments bigint",
          "groups bigint",
          "retain interval",
          "retain_bytes bigint",
          "keep_unread boolean",
          "segment interval",
          "open_appends bigint",
          "open_pid integer",
          "open_for interval",
          "created_at timestamp with time zone",
        ],
        "worker_statistics": [
          "worker_id integer",
          "worker text",
          "queue text",
          "acked bigint",
          "retried bigint",
          "snoozed bigint",
          "dead bigint",
          "waiting_p50 interval",
          "waiting_p90 interval",
          "waiting_p99 interval",
          "waiting_max interval",
          "handling_p50 interval",
          "handling_p90 interval",
          "handling_p99 interval",
          "handling_max interval",
          "as_of timestamp with time zone",
        ],
        "workers": [
          "id integer",
          "name text",
          "host text",
          "pid integer",
          "version text",
          "queues text[]",
          "started_at timestamp with time zone",
          "seen_at timestamp with time zone",
          "alive boolean",
          "stale boolean",
          "in_flight integer",
        ],
      }
    `)
  })

  test('say what they are, and what each of their columns is', async ({ database }) => {
    const silent = await database.sql(
      `SELECT c.relname, a.attname
       FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum >= 0
       WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v' AND NOT a.attisdropped
         AND coalesce(col_description(c.oid, a.attnum), '') = ''
       UNION ALL
       SELECT c.relname, NULL FROM pg_class c
       WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v' AND coalesce(obj_description(c.oid), '') = ''`,
    )
    expect(silent).toEqual([])
  })
})

/** A worker process as the server sees it: alive for as long as its session. */
async function work({ execute }: ClaimSession, queue: string, hand: readonly string[]): Promise<number> {
  const id = await newWorkerId(execute)
  await registerWorker(execute, id, { name: `worker ${id}`, host: 'here', pid: 7, version: '1.2.3' }, [queue])
  const record = { id: 1, queue, messageIds: hand, attempts: hand.map(() => 2) }
  if (hand.length > 0) await recordBatches(execute, id, [], [record])
  return id
}

describe('the state of a message', () => {
  test('follows from its times, its attempts, and who has it in hand', async ({ database, queue, begin }) => {
    const [scheduled, ready, retrying, again, inHand, left, old] = await put(database, queue, [
      { dueInMs: 60_000 },
      {},
      { dueInMs: 60_000, attempt: 1 },
      { attempt: 1 },
      { attempt: 2 },
      { attempt: 2 },
      {},
    ])
    await database.sql('UPDATE sluice.message SET expires_at = clock_timestamp() WHERE id = $1', [old])
    const [alive, dead] = [await begin(), await begin()]
    const worker = await work(alive, queue, [inHand!])
    await alive.commit()
    await work(dead, queue, [left!])
    await dead.client.query('COMMIT; SELECT pg_advisory_unlock_all(); BEGIN')

    const rows = await database.sql<{ id: string; state: string; worker: string | null }>(
      'SELECT id::text AS id, state, worker FROM sluice.messages m WHERE queue = $1 ORDER BY m.id',
      [queue],
    )
    expect(rows.map(({ id, state, worker: name }) => [id, state, name])).toEqual([
      [scheduled, 'scheduled', null],
      [ready, 'ready', null],
      [retrying, 'retrying', null],
      [again, 'ready', null],
      [inHand, 'in_flight', `worker ${worker}`],
      [left, 'ready', null],
      [old, 'expired', null],
    ])
    expect(new Set([...rows.map(({ state }) => state), 'dead'])).toEqual(new Set(MESSAGE_STATES))
  })

  test('is as of the look, not as of the statement that enqueued it a moment before', async ({ database, queue }) => {
    await database.sql(`
      DO $$
      BEGIN
        PERFORM sluice.enqueue('${queue}', '1');
        ASSERT (SELECT state FROM sluice.messages WHERE queue = '${queue}') = 'ready';
        ASSERT (SELECT state FROM sluice.peek('${queue}')) = 'ready';
      END
      $$`)
  })

  test('names the message of its key that it waits for, also where that has a higher id', async ({
    database,
    queue,
    begin,
  }) => {
    const keys = await keysOf(database)
    const [before, failed, next, neighbour, plain] = await put(database, queue, [
      { key: keys.same[0] },
      { key: keys.same[0], dueInMs: 60_000, attempt: 1 },
      { key: keys.same[0] },
      { key: keys.same[1] },
      {},
    ])
    const { execute, commit } = await begin()
    await ensureSlots(execute, queue, [keys.slot])
    const hold = async (untilMs: number) => {
      const untilUs = Math.round((Date.now() + untilMs) * 1_000)
      const held = [{ slot: keys.slot, orderingKey: keys.same[0], messageId: failed!, untilUs }]
      await holdKeys(execute, queue, held, 0)
      await commit()
      return database.sql<{ id: string; held_by: string | null }>(
        'SELECT id::text AS id, held_by::text AS held_by FROM sluice.messages m WHERE queue = $1 ORDER BY m.id',
        [queue],
      )
    }
    expect((await hold(60_000)).map((row) => [row.id, row.held_by])).toEqual([
      [before, failed],
      [failed, null],
      [next, failed],
      [neighbour, null],
      [plain, null],
    ])
    expect((await hold(-60_000)).filter((row) => row.held_by !== null)).toEqual([])
  })
})

describe('sluice.in_flight', () => {
  test('tells which messages are where, since when, and whether anybody is still there', async ({
    database,
    queue,
    begin,
  }) => {
    const ids = await put(database, queue, [{ attempt: 2 }, { attempt: 2 }])
    const session = await begin()
    const worker = await work(session, queue, ids)
    await session.commit()
    const look = () =>
      database.sql(
        `SELECT queue, id::text AS id, attempt, batch::text AS batch, worker_id, worker, worker_alive,
                running_for BETWEEN interval '0' AND interval '1 minute' AS just_now
         FROM sluice.in_flight f WHERE queue = $1 ORDER BY f.id`,
        [queue],
      )
    const common = { queue, attempt: 3, batch: '1', worker_id: worker, worker: `worker ${worker}`, just_now: true }
    expect(await look()).toEqual(ids.map((id) => ({ ...common, id, worker_alive: true })))
    await session.client.query('SELECT pg_advisory_unlock_all()')
    expect(await look()).toEqual(ids.map((id) => ({ ...common, id, worker_alive: false })))
  })
})

describe('sluice.workers', () => {
  test('tells who is there, and with how much in hand', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, [{}, {}, {}])
    const session = await begin()
    const id = await work(session, queue, ids)
    await session.commit()
    const look = () =>
      database.sql(
        `SELECT id, name, host, pid, version, queues, alive, in_flight, seen_at >= started_at AS seen
         FROM sluice.workers WHERE id = $1`,
        [id],
      )
    const worker = { id, name: `worker ${id}`, host: 'here', pid: 7, version: '1.2.3', queues: [queue], seen: true }
    expect(await look()).toEqual([{ ...worker, alive: true, in_flight: 3 }])
    await session.client.query('SELECT pg_advisory_unlock_all()')
    expect(await look()).toEqual([{ ...worker, alive: false, in_flight: 3 }])
  })
})

describe('sluice.queues', () => {
  test('counts each message once, in the state that sluice.messages gives it', async ({ database, queue, begin }) => {
    const ids = await put(database, queue, [
      { dueInMs: 60_000 },
      { dueInMs: 30_000 },
      { dueInMs: -5_000 },
      { dueInMs: -9_000 },
      { attempt: 1, dueInMs: 60_000 },
      { dueInMs: -1_000 },
      { dueInMs: -1_000 },
    ])
    await database.sql(
      `INSERT INTO sluice.dead_letter SELECT queue, 1000000 + id, priority, ordering_key, type, schema_version,
      payload, headers, attempt, max_attempts, 'broken', NULL, enqueued_at FROM sluice.message WHERE id = ANY ($1)`,
      [ids.slice(0, 3)],
    )
    const session = await begin()
    await work(session, queue, ids.slice(5))
    await session.commit()
    const [row] = await database.sql(
      `SELECT queue, ready::integer, scheduled::integer, retrying::integer, in_flight::integer, dead::integer, workers::integer,
              oldest_ready_age BETWEEN interval '9 s' AND interval '20 s' AS age,
              next_due_at - clock_timestamp() BETWEEN interval '10 s' AND interval '30 s' AS next_due
       FROM sluice.queues WHERE queue = $1`,
      [queue],
    )
    expect(row).toEqual({
      queue,
      ready: 2,
      scheduled: 2,
      retrying: 1,
      in_flight: 2,
      dead: 3,
      workers: 1,
      age: true,
      next_due: true,
    })
    const states = await database.sql<{ state: string; count: number }>(
      'SELECT state, count(*)::integer AS count FROM sluice.messages WHERE queue = $1 GROUP BY state',
      [queue],
    )
    const counted = Object.fromEntries(states.map(({ state, count }) => [state, count]))
    expect(counted).toEqual({ ready: 2, scheduled: 2, retrying: 1, in_flight: 2 })
  })

  test('lists a queue that has only dead letters, or only a worker', async ({ database, queue, begin }) => {
    await put(database, queue, [{}])
    await database.sql(
      `WITH gone AS (DELETE FROM sluice.message WHERE queue = $1 RETURNING *)
      INSERT INTO sluice.dead_letter SELECT queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt,
        max_attempts, 'broken', NULL, enqueued_at FROM gone`,
      [queue],
    )
    const session = await begin()
    await work(session, `${queue}.idle`, [])
    await session.commit()
    const rows = await database.sql(
      `SELECT queue, ready::integer, dead::integer, workers::integer, next_due_at FROM sluice.queues
       WHERE queue LIKE $1 || '%' ORDER BY queue`,
      [queue],
    )
    expect(rows).toEqual([
      { queue, ready: 0, dead: 1, workers: 0, next_due_at: null },
      { queue: `${queue}.idle`, ready: 0, dead: 0, workers: 1, next_due_at: null },
    ])
  })
})
