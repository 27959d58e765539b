import { describe, expect } from 'vitest'
import { audit } from '../../faults/auditor/audit.ts'
import { CHECKS, type Verdict } from '../../faults/auditor/checks.ts'
import { readRecovery } from '../../faults/auditor/recovery.ts'
import { CREATE_LEDGER } from '../../faults/ledger.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/test.ts'

/** The books of one message that went well: enqueued, told of, begun, done. */
const WELL = `
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures) VALUES (1, 'a', 'k', 1, 'ack', 0);
INSERT INTO ledger.told (intent, message_ids, outcome, ambiguous) VALUES ('a', '{1}', 'committed', false);
INSERT INTO ledger.started (message_id, worker, attempt) VALUES (1, 'w', 1);
INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (1, 'w', 1);`

const DEAD = `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
VALUES ('q', 1, 5, 1, '{}', '{}', 2, 'failed', now());`
const WAITING = `INSERT INTO sluice.message (queue, id, payload) VALUES ('q', 1, '{}');`

/** What is done to those books, and what the auditor must say. */
const FAULTS: readonly { readonly what: string; readonly sql: string; readonly verdicts: readonly Verdict[] }[] = [
  {
    what: 'an effect of a message that was cancelled',
    sql: "INSERT INTO ledger.ended SELECT e.message_id, 'cancelled' FROM ledger.effect e",
    verdicts: ['after its end'],
  },
  { what: 'a message without effect', sql: 'DELETE FROM ledger.effect', verdicts: ['lost'] },
  {
    what: 'a second without an occurrence of a schedule',
    sql: `UPDATE ledger.enqueued SET intent = 'occurrence of a at 2026-01-01T00:00:00.000Z';
          UPDATE ledger.told SET intent = 'occurrence of a at 2026-01-01T00:00:00.000Z';
          INSERT INTO ledger.enqueued (message_id, intent, attempt, place, fate, failures)
          VALUES (2, 'occurrence of a at 2026-01-01T00:00:02.000Z', 2, 0, 'ack', 0);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1)`,
    verdicts: ['lost'],
  },
  {
    what: 'two effects',
    sql: 'INSERT INTO ledger.effect (message_id, worker, attempt) SELECT message_id, worker, attempt FROM ledger.effect',
    verdicts: ['repeated', 'out of order'],
  },
  {
    what: 'two messages of a dedupe key',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures) VALUES (2, 'b', 0, 'ack', 0);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1);
          UPDATE ledger.enqueued SET dedupe_key = 'd'`,
    verdicts: ['duplicated'],
  },
  {
    what: 'a duplicate of a message that does not exist',
    sql: "INSERT INTO ledger.duplicate (message_id, intent, dedupe_key) VALUES (7, 'b', 'd')",
    verdicts: ['lost'],
  },
  { what: 'an effect of a message that is still there', sql: WAITING, verdicts: ['repeated', 'stuck'] },
  { what: 'an effect of a dead message', sql: DEAD, verdicts: ['repeated', 'wrongly dead'] },
  {
    what: 'an effect of an enqueue that was rolled back',
    sql: "DELETE FROM ledger.enqueued; UPDATE ledger.told SET outcome = 'rolled back'",
    verdicts: ['phantom'],
  },
  { what: 'an effect that nobody began', sql: 'DELETE FROM ledger.started', verdicts: ['phantom', 'attempts wrong'] },
  {
    what: 'a COMMIT that was acknowledged and is gone',
    sql: 'DELETE FROM ledger.enqueued; DELETE FROM ledger.started; DELETE FROM ledger.effect',
    verdicts: ['commit denied'],
  },
  {
    what: 'a rollback that was acknowledged and is there',
    sql: "UPDATE ledger.told SET outcome = 'rolled back'",
    verdicts: ['commit denied'],
  },
  {
    what: 'an intent that took effect twice',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, attempt, place, fate, failures) VALUES (2, 'a', 2, 0, 'ack', 0);
          INSERT INTO ledger.told (intent, attempt, message_ids, outcome, ambiguous) VALUES ('a', 2, '{2}', 'committed', true);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1)`,
    verdicts: ['committed twice'],
  },
  {
    what: 'an enqueue that was refused',
    sql: "INSERT INTO ledger.told (intent, message_ids, outcome, ambiguous, detail) VALUES ('b', '{}', 'refused', false, 'full')",
    verdicts: ['enqueue refused'],
  },
  {
    what: 'two messages of a key the wrong way round',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures) VALUES (2, 'b', 'k', 0, 'ack', 0);
          INSERT INTO ledger.started (message_id, worker, attempt) VALUES (2, 'w', 1);
          INSERT INTO ledger.effect (message_id, worker, attempt) VALUES (2, 'w', 1)`,
    verdicts: ['out of order'],
  },
  {
    what: 'an attempt too many',
    sql: 'UPDATE ledger.effect SET attempt = 2; UPDATE ledger.started SET attempt = 2',
    verdicts: ['attempts wrong'],
  },
  {
    what: 'a failure that was not tried',
    sql: "UPDATE ledger.enqueued SET fate = 'fail', failures = 1",
    verdicts: ['attempts wrong'],
  },
  {
    what: 'a death of the wrong attempt',
    sql: `UPDATE ledger.enqueued SET fate = 'die'; DELETE FROM ledger.effect; ${DEAD} UPDATE sluice.dead_letter SET attempt = 1`,
    verdicts: ['attempts wrong'],
  },
  { what: 'the death of a good message', sql: `DELETE FROM ledger.effect; ${DEAD}`, verdicts: ['wrongly dead'] },
  { what: 'the success of a bad message', sql: "UPDATE ledger.enqueued SET fate = 'poison'", verdicts: ['not dead'] },
  {
    what: 'a message that is not in the history',
    sql: "INSERT INTO sluice.queue (queue, history_ms) VALUES ('q', 1000)",
    verdicts: ['history wrong'],
  },
  {
    what: 'a message that is in the history twice',
    sql: `INSERT INTO sluice.queue (queue, history_ms) VALUES ('q', 86400000);
          INSERT INTO sluice.completed_message (queue, id, completed_at, priority, schema_version, payload, headers, attempt, enqueued_at)
          SELECT 'q', 1, now() - n * interval '1 s', 5, 1, '{}', '{}', 1, now() FROM generate_series(0, 1) n`,
    verdicts: ['history wrong'],
  },
  { what: 'a message that is left', sql: `DELETE FROM ledger.effect; ${WAITING}`, verdicts: ['stuck'] },
  {
    what: 'a message that was handled long after the fault',
    sql: "INSERT INTO ledger.fault SELECT 'f', e.at - interval '3 s', e.at - interval '2 s' FROM ledger.effect e; UPDATE ledger.enqueued SET at = at - interval '1 h'",
    verdicts: ['late'],
  },
  {
    what: 'two in flight of one',
    sql: `INSERT INTO sluice.queue (queue, concurrency) VALUES ('q', 1);
          INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures) VALUES (2, 'b', 1, 'ack', 0);
          INSERT INTO ledger.started SELECT 2, 'v', 1, s.at - interval '1 s' FROM ledger.started s;
          INSERT INTO ledger.effect (message_id, worker, attempt, at) SELECT 2, 'v', 1, e.at + interval '1 s' FROM ledger.effect e`,
    verdicts: ['over limit'],
  },
  {
    what: 'two of a tenant in flight of one',
    sql: `INSERT INTO sluice.queue (queue, tenant_concurrency) VALUES ('q', 1);
          INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures) VALUES (2, 'b', 1, 'ack', 0), (3, 'b', 1, 'ack', 0);
          INSERT INTO ledger.started SELECT id, 'v', 1, s.at - interval '1 s' FROM ledger.started s, generate_series(2, 3) id;
          INSERT INTO ledger.effect (message_id, worker, attempt, at)
          SELECT id, 'v', 1, e.at + interval '1 s' FROM ledger.effect e, generate_series(2, 3) id;
          UPDATE ledger.enqueued SET tenant = CASE message_id WHEN 3 THEN 'other' ELSE 'same' END`,
    verdicts: ['over limit'],
  },
  {
    what: 'a tenant that waits while many of another begin',
    sql: `INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures, tenant, at)
          SELECT id, 'b', id, 'ack', 0, 'large', n.at FROM ledger.enqueued n, generate_series(2, 32) id;
          INSERT INTO ledger.started SELECT id, 'w', 1, n.at FROM ledger.enqueued n, generate_series(2, 32) id WHERE n.message_id = 1;
          INSERT INTO ledger.effect (message_id, worker, attempt)
          SELECT id, 'w', 1 FROM generate_series(2, 32) id;
          UPDATE ledger.enqueued SET tenant = 'small' WHERE message_id = 1`,
    verdicts: ['starved'],
  },
  {
    what: 'more than the tokens of a time',
    sql: `INSERT INTO sluice.queue (queue, rate, rate_ms) VALUES ('q', 1, 60000);
          INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures) VALUES (2, 'b', 1, 'ack', 0);
          INSERT INTO ledger.started SELECT 2, 'v', 1, s.at FROM ledger.started s;
          INSERT INTO ledger.effect (message_id, worker, attempt) SELECT 2, 'v', 1`,
    verdicts: ['over rate'],
  },
  {
    what: 'a beginning long after a pause',
    sql: `INSERT INTO ledger.pause SELECT s.at - interval '3 s', NULL, NULL, '{}', s.at + interval '1 s' FROM ledger.started s`,
    verdicts: ['while paused'],
  },
  {
    what: 'a beginning long after the worker could hear of a pause',
    sql: `INSERT INTO ledger.pause SELECT s.at - interval '9 s', 'w', s.at - interval '3 s', '{}', s.at + interval '1 s' FROM ledger.started s`,
    verdicts: ['while paused'],
  },
  {
    what: 'what was in hand at a pause and did not end before the resume',
    sql: `INSERT INTO ledger.pause SELECT s.at, NULL, NULL, '{}', s.at FROM ledger.started s`,
    verdicts: ['broken off'],
  },
  {
    what: 'what a process had begun and left, although it exited with 0',
    sql: `INSERT INTO ledger.exit VALUES ('v', 1, '0'); INSERT INTO ledger.started SELECT 1, 'v', 1, s.at FROM ledger.started s`,
    verdicts: ['broken off'],
  },
  {
    what: 'an attempt that counts although it was given back',
    sql: `INSERT INTO ledger.exit VALUES ('v', 2, '3');
          INSERT INTO ledger.started SELECT 1, 'v', 1, s.at - interval '1 s' FROM ledger.started s;
          UPDATE ledger.enqueued SET failures = 1;
          UPDATE ledger.started SET attempt = 2 WHERE worker = 'w';
          UPDATE ledger.effect SET attempt = 2`,
    verdicts: ['attempts wrong'],
  },
  {
    what: 'a process that a signal killed',
    sql: "INSERT INTO ledger.exit VALUES ('v', 1, 'SIGTERM')",
    verdicts: ['wrong exit'],
  },
  {
    what: 'an activity that has more than there is',
    sql: `INSERT INTO ledger.worker VALUES (1, 'w', '1 h'); ${activityOf(2)}`,
    verdicts: ['miscounted'],
  },
  {
    what: 'an activity that has less than a living worker has done',
    sql: "INSERT INTO ledger.worker VALUES (1, 'w', '0')",
    verdicts: ['miscounted'],
  },
  {
    what: 'an activity that has less than a worker had done long before it was killed',
    sql: `INSERT INTO ledger.worker SELECT 1, 'w', '1 h', e.at + interval '2 h' FROM ledger.effect e`,
    verdicts: ['miscounted'],
  },
  {
    what: 'an act of an operator that is not in the audit',
    sql: "INSERT INTO ledger.act VALUES ('q', 'message.cancel', 7)",
    verdicts: ['audit wrong'],
  },
  {
    what: 'an act of an operator that is in the audit twice',
    sql: `INSERT INTO ledger.act VALUES ('q', 'queue.pause', NULL);
          INSERT INTO sluice.action (actor, login, action, queue, count) SELECT 'a', 'l', 'queue.pause', 'q', 1 FROM generate_series(1, 2)`,
    verdicts: ['audit wrong'],
  },
  {
    what: 'an attempt in another trace than that of the enqueue',
    sql: "UPDATE ledger.enqueued SET trace = 'a'; UPDATE ledger.started SET trace = 'b'",
    verdicts: ['trace lost'],
  },
]

/** A row of a worker's activity, with so many successes. */
function activityOf(successes: number): string {
  return `INSERT INTO sluice.worker_activity SELECT (jsonb_populate_record(NULL::sluice.worker_activity,
    jsonb_build_object('at', now(), 'worker_id', 1, 'number', 1, 'queues', '{"q": {"acked": ${successes}}}'::jsonb))).*;`
}

describe('the auditor', () => {
  test('finds nothing where nothing is wrong', async ({ database }) => {
    expect(await verdictsAfter(database, '')).toEqual([])
  })

  test('knows that the ids of a try that was lost may be given out again', async ({ database }) => {
    const lost =
      "INSERT INTO ledger.told (intent, attempt, message_ids, outcome, ambiguous) VALUES ('a', 2, '{1}', 'lost', true)"
    expect(await verdictsAfter(database, lost)).toEqual([])
  })

  test('grants one poll interval, and a worker that has no connection the time until it has one', async ({
    database,
  }) => {
    const soon =
      "INSERT INTO ledger.pause SELECT s.at - interval '1.5 s', NULL, NULL, '{}', s.at + interval '1 s' FROM ledger.started s"
    expect(await verdictsAfter(database, soon)).toEqual([])
    const deaf =
      "INSERT INTO ledger.pause SELECT s.at - interval '9 s', 'w', s.at - interval '1 s', '{}', s.at + interval '1 s' FROM ledger.started s"
    expect(await verdictsAfter(database, deaf)).toEqual([])
  })

  test('expects no activity of the last time before a worker was killed', async ({ database }) => {
    const killed = "INSERT INTO ledger.worker SELECT 1, 'w', '1 h', e.at + interval '1 min' FROM ledger.effect e"
    expect(await verdictsAfter(database, killed)).toEqual([])
    const counted = `INSERT INTO ledger.worker VALUES (1, 'w', '0'); ${activityOf(1)}`
    expect(await verdictsAfter(database, counted)).toEqual([])
  })

  test('expects nothing of what a worker had in hand that a fault has met', async ({ database }) => {
    const met = "INSERT INTO ledger.pause SELECT s.at, NULL, NULL, '{w}', s.at FROM ledger.started s"
    expect(await verdictsAfter(database, met)).toEqual([])
  })

  test.for(FAULTS)('finds $what', async ({ sql, verdicts }, { database }) => {
    expect(await verdictsAfter(database, sql)).toEqual(verdicts)
  })

  test('has an example here for each of its verdicts', () => {
    const shown = new Set(FAULTS.flatMap(({ verdicts }) => verdicts))
    expect(CHECKS.map(({ verdict }) => verdict).filter((verdict) => !shown.has(verdict))).toEqual([])
  })

  test('counts from the end of a fault until all that was committed by then was handled', async ({ database }) => {
    await keepBooks(
      database,
      "INSERT INTO ledger.fault SELECT 'f', e.at - interval '3 s', e.at - interval '2 s' FROM ledger.effect e; UPDATE ledger.enqueued SET at = at - interval '1 h'",
    )
    const client = await database.pool.connect()
    try {
      expect(await readRecovery(client)).toEqual([{ fault: 'f', injected: 1, worstMs: 2_000, medianMs: 2_000 }])
    } finally {
      client.release()
    }
  })
})

/** An event that two groups have handled, in the books and in Sluice's tables. */
const EVENT_WELL = `
DELETE FROM sluice.event; DELETE FROM sluice.group_progress; DELETE FROM sluice.stream_group;
SELECT sluice.create_stream('q', 1::smallint), sluice.create_group('q', 'one', '{0}'), sluice.create_group('q', 'two', '{0}'), sluice.append('q', '{}');
UPDATE sluice.group_progress SET position = e.position FROM sluice.event e;
INSERT INTO ledger.enqueued (message_id, intent, place, fate, failures)
SELECT ledger.delivery(e.position, 'q:' || g.name), 'e', 1, 'ack', 0 FROM sluice.event e, sluice.stream_group g;
INSERT INTO ledger.started (message_id, worker, attempt) SELECT q.message_id, 'w', 1 FROM ledger.enqueued q WHERE q.intent = 'e';
INSERT INTO ledger.effect (message_id, worker, attempt) SELECT q.message_id, 'w', 1 FROM ledger.enqueued q WHERE q.intent = 'e'`

/** What is done to them for the second group. */
const EVENT_FAULTS: readonly { readonly what: string; readonly sql: string; readonly verdicts: readonly Verdict[] }[] =
  [
    { what: 'nothing where nothing is wrong', sql: '', verdicts: [] },
    {
      what: 'an event that a group has passed over',
      sql: 'DELETE FROM ledger.effect f USING sluice.event e WHERE f.message_id = e.position * 2 + 1',
      verdicts: ['lost'],
    },
    {
      what: 'an event that a group has not come to',
      sql: `DELETE FROM ledger.effect f USING sluice.event e WHERE f.message_id = e.position * 2 + 1;
          UPDATE sluice.group_progress p SET position = 0 FROM sluice.stream_group g WHERE g.id = p.group_id AND g.name = 'two'`,
      verdicts: ['stuck'],
    },
    {
      what: 'an effect of an event that a group has not come to',
      sql: `UPDATE sluice.group_progress p SET position = 0 FROM sluice.stream_group g WHERE g.id = p.group_id AND g.name = 'two'`,
      verdicts: ['repeated', 'stuck'],
    },
    {
      what: "an effect of an event that is in a group's queue",
      sql: "INSERT INTO sluice.message (queue, payload, event_position) SELECT 'q:two', '{}', e.position FROM sluice.event e",
      verdicts: ['repeated', 'stuck'],
    },
    {
      what: 'an effect of an event that is dead for a group',
      sql: `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at, event_position)
          SELECT 'q:two', 1, 5, 1, '{}', '{}', 2, 'failed', now(), e.position FROM sluice.event e`,
      verdicts: ['repeated', 'wrongly dead'],
    },
  ]

describe('the auditor of a stream', () => {
  test.for(EVENT_FAULTS)('finds $what', async ({ sql, verdicts }, { database }) => {
    expect(await verdictsAfter(database, `${EVENT_WELL}; ${sql}`)).toEqual(verdicts)
  })
})

/**
 * Two events of a key, which the second group has handled before it is moved back to the later one. First the appends are
 * committed: a group is not moved behind one that is open.
 */
const MOVED_BACK = `
${EVENT_WELL};
SELECT sluice.append('q', '{}');
UPDATE sluice.group_progress SET position = (SELECT max(e.position) FROM sluice.event e);
INSERT INTO ledger.enqueued (message_id, intent, ordering_key, place, fate, failures)
SELECT ledger.delivery(max(e.position), 'q:' || g.name), 'f', 'r:' || g.name, 2, 'ack', 0 FROM sluice.event e, sluice.stream_group g GROUP BY g.name;
UPDATE ledger.enqueued SET ordering_key = CASE message_id % 2 WHEN 1 THEN 'r:two' ELSE 'r:one' END WHERE intent = 'e';
INSERT INTO ledger.started (message_id, worker, attempt) SELECT q.message_id, 'w', 1 FROM ledger.enqueued q WHERE q.intent = 'f';
INSERT INTO ledger.effect (message_id, worker, attempt) SELECT q.message_id, 'w', 1 FROM ledger.enqueued q WHERE q.intent = 'f';
BEGIN; COMMIT;
SELECT ledger.move_back('q', 'two', (SELECT max(e.position) FROM sluice.event e))`

/** An effect of the second group for the event with the first, or the last, position. */
const effectOf = (which: 'min' | 'max') => `
INSERT INTO ledger.started (message_id, worker, attempt) SELECT ${which}(e.position) * 2 + 1, 'v', 1 FROM sluice.event e;
INSERT INTO ledger.effect (message_id, worker, attempt) SELECT ${which}(e.position) * 2 + 1, 'v', 1 FROM sluice.event e;`

const READ_TO_THE_END = 'UPDATE sluice.group_progress SET position = (SELECT max(e.position) FROM sluice.event e)'

/** What the second group does then. */
const MOVE_FAULTS: readonly { readonly what: string; readonly sql: string; readonly verdicts: readonly Verdict[] }[] = [
  {
    what: 'nothing where each event from the target on is handled once more',
    sql: `${effectOf('max')} ${READ_TO_THE_END}`,
    verdicts: [],
  },
  { what: 'an event that it has not read again', sql: '', verdicts: ['stuck'] },
  { what: 'an event that it has passed over', sql: READ_TO_THE_END, verdicts: ['lost'] },
  {
    what: 'an event that is handled twice more',
    sql: `${effectOf('max')} ${effectOf('max')} ${READ_TO_THE_END}`,
    verdicts: ['repeated', 'out of order'],
  },
  {
    what: 'an event before the target that is handled again',
    sql: `${effectOf('min')} ${effectOf('max')} ${READ_TO_THE_END}`,
    verdicts: ['repeated', 'out of order'],
  },
  {
    what: 'a second effect that an event had before the move',
    sql: `${effectOf('max')} ${READ_TO_THE_END};
          INSERT INTO ledger.effect (message_id, worker, attempt)
          SELECT f.message_id, f.worker, f.attempt FROM ledger.effect f WHERE f.message_id > 1::bigint << 50`,
    verdicts: ['repeated', 'out of order'],
  },
]

describe('the auditor of a group that was moved back', () => {
  test.for(MOVE_FAULTS)('finds $what', async ({ sql, verdicts }, { database }) => {
    expect(await verdictsAfter(database, `${MOVED_BACK}; ${sql}`)).toEqual(verdicts)
  })
})

async function verdictsAfter(database: TestDatabase, sql: string): Promise<readonly Verdict[]> {
  await keepBooks(database, sql)
  const client = await database.pool.connect()
  try {
    const expectations = {
      queue: 'q',
      effects: 'exactly once',
      costsAttempts: false,
      recoveryMs: 1_000,
      pollMs: 1_000,
    } as const
    return [...new Set((await audit(client, expectations)).map(({ verdict }) => verdict))]
  } finally {
    client.release()
  }
}

async function keepBooks(database: TestDatabase, sql: string): Promise<void> {
  await database.sql('DROP SCHEMA IF EXISTS ledger CASCADE')
  await database.sql(
    'TRUNCATE sluice.message, sluice.dead_letter, sluice.queue, sluice.completed_message, sluice.action, sluice.worker_activity',
  )
  await database.sql(`${CREATE_LEDGER}; ${WELL}; ${sql}`)
}
