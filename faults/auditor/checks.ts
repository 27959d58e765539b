/** What can be wrong. */
export type Verdict =
  | 'lost'
  | 'repeated'
  | 'phantom'
  | 'commit denied'
  | 'committed twice'
  | 'enqueue refused'
  | 'out of order'
  | 'attempts wrong'
  | 'wrongly dead'
  | 'not dead'
  | 'stuck'
  | 'late'
  | 'leak'

/** What the load and the faults entitle the auditor to. */
export interface Expectations {
  readonly queue: string
  /** Whether an effect happens exactly once, or at least once. */
  readonly effects: 'exactly once' | 'at least once'
  /** A message may have more attempts than its handler's failures: see `Promises` of a scenario. */
  readonly costsAttempts: boolean
  /** How long after the end of a fault all that was committed by then must have been handled, in milliseconds. */
  readonly recoveryMs: number
}

/** One rule: its statement returns a line of text for everything that breaks it. */
export interface Check {
  readonly verdict: Verdict
  readonly rule: string
  readonly sql: string
  readonly params?: (expectations: Expectations) => readonly unknown[]
  readonly unless?: (expectations: Expectations) => boolean
}

export const CHECKS: readonly Check[] = [
  {
    verdict: 'lost',
    rule: 'every committed message is handled at least once, or is among the dead letters, or still there',
    sql: `
SELECT format('message %s of intent %s', q.message_id, q.intent) AS found
FROM ledger.enqueued q
WHERE NOT EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = q.message_id)
  AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.id = q.message_id)
  AND NOT EXISTS (SELECT FROM sluice.message m WHERE m.id = q.message_id)`,
  },
  {
    verdict: 'repeated',
    rule: 'a message has one effect, and none if it is dead or still there',
    unless: ({ effects }) => effects === 'at least once',
    sql: `
SELECT format('message %s has %s effects%s', e.message_id, count(*),
              CASE WHEN bool_or(d.id IS NOT NULL) THEN ' and is dead' WHEN bool_or(m.id IS NOT NULL) THEN ' and is still there' END) AS found
FROM ledger.effect e
LEFT JOIN sluice.dead_letter d ON d.id = e.message_id
LEFT JOIN sluice.message m ON m.id = e.message_id
GROUP BY e.message_id
HAVING count(*) > CASE WHEN bool_or(d.id IS NOT NULL OR m.id IS NOT NULL) THEN 0 ELSE 1 END`,
  },
  {
    verdict: 'phantom',
    rule: 'nothing is seen of a message whose enqueue did not commit',
    sql: `
SELECT format('message %s: %s', seen.id, string_agg(DISTINCT seen.place, ', ')) AS found
FROM (
  SELECT s.message_id, 'started' FROM ledger.started s
  UNION ALL SELECT e.message_id, 'effect' FROM ledger.effect e
  UNION ALL SELECT m.id, 'waiting' FROM sluice.message m
  UNION ALL SELECT d.id, 'dead' FROM sluice.dead_letter d
) AS seen (id, place)
WHERE NOT EXISTS (SELECT FROM ledger.enqueued q WHERE q.message_id = seen.id)
GROUP BY seen.id`,
  },
  {
    verdict: 'phantom',
    rule: 'every effect has a beginning that was written down before it',
    sql: `
SELECT format('effect %s on message %s', e.serial, e.message_id) AS found
FROM ledger.effect e
WHERE NOT EXISTS (
  SELECT FROM ledger.started s WHERE s.message_id = e.message_id AND s.attempt = e.attempt AND s.at <= e.at
)`,
  },
  {
    verdict: 'commit denied',
    rule: 'what a producer was told of its COMMIT is true',
    sql: `
SELECT format('intent %s: told %s, message %s is %s', t.intent, t.outcome, id, CASE WHEN q.message_id IS NULL THEN 'not there' ELSE 'there' END) AS found
FROM ledger.told t CROSS JOIN LATERAL unnest(t.message_ids) AS id
LEFT JOIN ledger.enqueued q ON q.message_id = id AND q.intent = t.intent AND q.attempt = t.attempt
WHERE (t.outcome = 'committed') <> (q.message_id IS NOT NULL)`,
  },
  {
    verdict: 'committed twice',
    rule: 'an intent is committed by one of its tries at most',
    sql: `
SELECT format('intent %s: %s tries took effect', q.intent, count(DISTINCT q.attempt)) AS found
FROM ledger.enqueued q
GROUP BY q.intent HAVING count(DISTINCT q.attempt) > 1`,
  },
  {
    verdict: 'enqueue refused',
    rule: 'no enqueue is refused',
    sql: `SELECT format('intent %s: %s', t.intent, t.detail) AS found FROM ledger.told t WHERE t.outcome = 'refused'`,
  },
  {
    verdict: 'out of order',
    rule: 'messages of one key take effect in the order of their enqueue',
    sql: `
SELECT format('key %s: %s after %s', k.ordering_key, k.place, k.before) AS found
FROM (
  SELECT q.ordering_key, q.place, lag(q.place) OVER (PARTITION BY q.ordering_key ORDER BY e.serial) AS before
  FROM ledger.effect e JOIN ledger.enqueued q ON q.message_id = e.message_id
  WHERE q.ordering_key IS NOT NULL
) k
WHERE k.before >= k.place`,
  },
  {
    verdict: 'attempts wrong',
    rule: 'a message takes effect with the attempt that follows its failures, and every attempt before it was begun',
    params: ({ costsAttempts }) => [costsAttempts],
    sql: `
SELECT format('message %s: %s failures, effect by attempt %s, begun: %s', q.message_id, q.failures, e.attempt, s.attempts) AS found
FROM ledger.effect e
JOIN ledger.enqueued q ON q.message_id = e.message_id
CROSS JOIN LATERAL (
  SELECT coalesce(array_agg(DISTINCT s.attempt ORDER BY s.attempt), '{}') AS attempts FROM ledger.started s WHERE s.message_id = e.message_id
) s
WHERE CASE WHEN $1::boolean THEN e.attempt <= q.failures OR NOT e.attempt = ANY (s.attempts)
      ELSE e.attempt <> q.failures + 1 OR s.attempts <> ARRAY(SELECT generate_series(1, e.attempt)) END`,
  },
  {
    verdict: 'attempts wrong',
    rule: 'a message that always fails dies of its second attempt',
    params: ({ costsAttempts }) => [costsAttempts],
    sql: `
SELECT format('message %s died of attempt %s: %s', d.id, d.attempt, d.reason) AS found
FROM sluice.dead_letter d JOIN ledger.enqueued q ON q.message_id = d.id
WHERE q.fate = 'die' AND d.attempt <> 2 AND NOT ($1::boolean AND d.attempt > 2)`,
  },
  {
    verdict: 'wrongly dead',
    rule: 'only a message that fails always, kills or hangs its process dies',
    sql: `
SELECT format('message %s (%s): %s', d.id, q.fate, d.reason) AS found
FROM sluice.dead_letter d JOIN ledger.enqueued q ON q.message_id = d.id
WHERE q.fate IN ('ack', 'fail')`,
  },
  {
    verdict: 'not dead',
    rule: 'a message that fails always, kills or hangs its process dies, and leaves no effect',
    sql: `
SELECT format('message %s (%s) has an effect', q.message_id, q.fate) AS found
FROM ledger.enqueued q
WHERE q.fate IN ('die', 'poison', 'block', 'sever') AND EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = q.message_id)`,
  },
  {
    verdict: 'stuck',
    rule: 'nothing is left',
    params: ({ queue }) => [queue],
    sql: `
SELECT format('message %s (attempt %s, due %s s ago)', m.id, m.attempt, round(extract(epoch FROM pg_catalog.clock_timestamp() - m.due_at))) AS found
FROM sluice.message m WHERE m.queue = $1`,
  },
  {
    verdict: 'late',
    rule: 'what was committed by the end of a fault is handled within the recovery time',
    params: ({ recoveryMs }) => [recoveryMs],
    sql: `
SELECT format('message %s: %s ms after "%s"', q.message_id, round(extract(epoch FROM e.at - f.ended_at) * 1000), f.name) AS found
FROM ledger.fault f
JOIN ledger.enqueued q ON q.at <= f.ended_at AND q.fate = 'ack'
JOIN ledger.effect e ON e.message_id = q.message_id
WHERE e.at > greatest(f.ended_at, q.at + q.delay_ms * interval '1 millisecond') + $1::double precision * interval '1 millisecond'
  AND NOT EXISTS (SELECT FROM ledger.fault g WHERE g.began_at > f.ended_at AND g.began_at < e.at)`,
  },
]

/**
 * What must be gone when all workers have stopped, in the database that the client is connected to. $1: a pooler keeps
 * the server's connections, whoever was their last user. $2: workers that have vanished may stay on the books.
 */
export const LEAKS: Check = {
  verdict: 'leak',
  rule: 'no lock, connection, listener, worker or batch is left behind',
  sql: `
SELECT format('advisory lock %s/%s', l.classid, l.objid) AS found FROM pg_locks l
WHERE l.locktype = 'advisory' AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT format('connection "%s", %s', a.application_name, a.state) FROM pg_stat_activity a
WHERE NOT $1::boolean AND a.datname = current_database() AND a.application_name LIKE 'sluice%'
UNION ALL
SELECT format('worker %s', w.name) FROM sluice.worker w WHERE NOT $2::boolean
UNION ALL
SELECT format('batch %s of worker %s', b.id, b.worker_id) FROM sluice.batch b WHERE NOT $2::boolean`,
}
