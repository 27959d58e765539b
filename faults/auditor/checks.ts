/** What can be wrong. */
export type Verdict =
  | 'lost'
  | 'repeated'
  | 'after its end'
  | 'duplicated'
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
  | 'history wrong'
  | 'over limit'
  | 'over rate'
  | 'starved'
  | 'while paused'
  | 'broken off'
  | 'wrong exit'
  | 'miscounted'
  | 'audit wrong'
  | 'trace lost'
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
  /** The poll interval of the workers, in milliseconds. */
  readonly pollMs: number
}

/** One rule: its statement returns a line of text for everything that breaks it. */
export interface Check {
  readonly verdict: Verdict
  readonly rule: string
  readonly sql: string
  readonly params?: (expectations: Expectations) => readonly unknown[]
  readonly unless?: (expectations: Expectations) => boolean
  /** What it finds between two faults is found at the end as well: nothing that follows puts it right. */
  readonly lasts?: true
}

/** For each worker, how many successes its activity has, how many there are, and how many of these it must have. */
const ACTIVITY = `
WITH worker AS (
  SELECT w.name, counted.successes AS counted, effect.*
  FROM (
    SELECT w.name, array_agg(w.id) AS ids, min(w.killed_at) AS killed_at, max(w.loses) AS loses FROM ledger.worker w GROUP BY w.name
  ) w
  CROSS JOIN LATERAL (
    SELECT coalesce(sum((q.value ->> 'acked')::bigint), 0) AS successes
    FROM sluice.worker_activity a CROSS JOIN LATERAL jsonb_each(a.queues) q WHERE a.worker_id = ANY (w.ids)
  ) counted
  CROSS JOIN LATERAL (
    SELECT count(*) AS effects,
           count(*) FILTER (WHERE e.at < coalesce(w.killed_at, pg_catalog.clock_timestamp()) - w.loses) AS due
    FROM ledger.effect e WHERE e.worker = w.name
  ) effect
)`

export const CHECKS: readonly Check[] = [
  {
    verdict: 'lost',
    rule: 'every committed message is handled at least once, or is among the dead letters, or still there',
    sql: `
SELECT format('message %s of intent %s', q.message_id, q.intent) AS found
FROM ledger.enqueued q
WHERE NOT EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = q.message_id)
  AND NOT EXISTS (SELECT FROM ledger.dead d WHERE d.id = q.message_id)
  AND NOT EXISTS (SELECT FROM ledger.waiting m WHERE m.id = q.message_id)
  AND NOT EXISTS (SELECT FROM ledger.ended n WHERE n.message_id = q.message_id)`,
  },
  {
    verdict: 'after its end',
    rule: 'a message that is cancelled, or whose life is over, has no effect, and is not there',
    sql: `
SELECT format('message %s is %s, and %s', n.message_id, n.how, CASE WHEN m.id IS NULL THEN 'has an effect' ELSE 'waits' END) AS found
FROM ledger.ended n LEFT JOIN sluice.message m ON m.id = n.message_id
WHERE n.how <> 'asked' AND (m.id IS NOT NULL OR EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = n.message_id))`,
  },
  {
    verdict: 'lost',
    rule: 'a schedule for every second has an occurrence in each second from its first to its last',
    sql: `
SELECT format('%s: nothing between %s and %s', o.schedule, o.before, o.at) AS found
FROM (
  SELECT q.schedule, q.at, lag(q.at) OVER (PARTITION BY q.schedule ORDER BY q.at) AS before
  FROM (
    SELECT substring(e.intent FROM '^(occurrence of .*) at ') AS schedule, substring(e.intent FROM ' at (.*)$')::timestamptz AS at
    FROM ledger.enqueued e WHERE e.intent LIKE 'occurrence of %'
  ) q
) o
WHERE o.at > o.before + interval '1 second'`,
  },
  {
    verdict: 'repeated',
    rule: 'a message has one effect, and none if it is dead or still there',
    lasts: true,
    unless: ({ effects }) => effects === 'at least once',
    sql: `
SELECT format('message %s has %s effects%s', e.message_id, count(*),
              CASE WHEN bool_or(d.id IS NOT NULL) THEN ' and is dead' WHEN bool_or(m.id IS NOT NULL) THEN ' and is still there' END) AS found
FROM ledger.effect e
LEFT JOIN ledger.dead d ON d.id = e.message_id
LEFT JOIN ledger.waiting m ON m.id = e.message_id
GROUP BY e.message_id
HAVING count(*) > CASE WHEN bool_or(d.id IS NOT NULL OR m.id IS NOT NULL) THEN 0 ELSE 1 END`,
  },
  {
    verdict: 'duplicated',
    rule: 'one message of a dedupe key takes effect, because each keeps its key for an hour',
    lasts: true,
    sql: `
SELECT format('key %s: %s effects, of the messages %s', q.dedupe_key, count(*), array_agg(DISTINCT e.message_id)) AS found
FROM ledger.effect e JOIN ledger.enqueued q ON q.message_id = e.message_id
WHERE q.dedupe_key IS NOT NULL
GROUP BY q.dedupe_key HAVING count(*) > 1`,
  },
  {
    verdict: 'lost',
    rule: 'whoever was told that a message has the key was told of one that was committed',
    sql: `
SELECT format('intent %s: key %s, message %s', u.intent, u.dedupe_key, u.message_id) AS found
FROM ledger.duplicate u
WHERE NOT EXISTS (SELECT FROM ledger.enqueued q WHERE q.message_id = u.message_id AND q.dedupe_key = u.dedupe_key)`,
  },
  {
    verdict: 'phantom',
    rule: 'nothing is seen of a message whose enqueue did not commit',
    sql: `
SELECT format('message %s: %s', seen.id, string_agg(DISTINCT seen.place, ', ')) AS found
FROM (
  SELECT s.message_id, 'started' FROM ledger.started s
  UNION ALL SELECT e.message_id, 'effect' FROM ledger.effect e
  UNION ALL SELECT m.id, 'waiting' FROM ledger.waiting m
  UNION ALL SELECT d.id, 'dead' FROM ledger.dead d
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
    lasts: true,
    sql: `
SELECT format('intent %s: told %s, message %s is %s', t.intent, t.outcome, id, CASE WHEN q.message_id IS NULL THEN 'not there' ELSE 'there' END) AS found
FROM ledger.told t CROSS JOIN LATERAL unnest(t.message_ids) AS id
LEFT JOIN ledger.enqueued q ON q.message_id = id AND q.intent = t.intent AND q.attempt = t.attempt
WHERE (t.outcome = 'committed') <> (q.message_id IS NOT NULL)`,
  },
  {
    verdict: 'committed twice',
    rule: 'an intent is committed by one of its tries at most',
    lasts: true,
    sql: `
SELECT format('intent %s: %s tries took effect', q.intent, count(DISTINCT q.attempt)) AS found
FROM ledger.enqueued q
GROUP BY q.intent HAVING count(DISTINCT q.attempt) > 1`,
  },
  {
    verdict: 'enqueue refused',
    rule: 'no enqueue is refused',
    lasts: true,
    sql: `SELECT format('intent %s: %s', t.intent, t.detail) AS found FROM ledger.told t WHERE t.outcome = 'refused'`,
  },
  {
    verdict: 'out of order',
    rule: 'messages of one key take effect in the order of their enqueue',
    lasts: true,
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
    lasts: true,
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
FROM ledger.dead d JOIN ledger.enqueued q ON q.message_id = d.id
WHERE q.fate = 'die' AND d.attempt <> 2 AND NOT ($1::boolean AND d.attempt > 2)`,
  },
  {
    verdict: 'wrongly dead',
    rule: 'only a message that fails always, kills or hangs its process dies',
    lasts: true,
    sql: `
SELECT format('message %s (%s): %s', d.id, q.fate, d.reason) AS found
FROM ledger.dead d JOIN ledger.enqueued q ON q.message_id = d.id
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
FROM ledger.waiting m WHERE m.queue = $1`,
  },
  {
    verdict: 'history wrong',
    rule: 'where the queue keeps its history, a message is in it once if it has succeeded, and not at all if it is dead or still there',
    sql: `
SELECT format('message %s (%s): %s times in the history', q.message_id, q.fate, count(c.id)) AS found
FROM ledger.enqueued q
LEFT JOIN sluice.completed_message c ON c.id = q.message_id
WHERE EXISTS (SELECT FROM sluice.queue s WHERE s.history_ms IS NOT NULL)
GROUP BY q.message_id, q.fate
HAVING count(c.id) <> CASE
  WHEN EXISTS (SELECT FROM sluice.message m WHERE m.id = q.message_id) OR EXISTS (SELECT FROM sluice.dead_letter d WHERE d.id = q.message_id) THEN 0
  ELSE 1 END`,
  },
  {
    verdict: 'late',
    rule: 'what was committed by the end of a fault is handled within the recovery time',
    lasts: true,
    params: ({ recoveryMs }) => [recoveryMs],
    sql: `
SELECT format('message %s: %s ms after "%s"', q.message_id, round(extract(epoch FROM e.at - f.ended_at) * 1000), f.name) AS found
FROM ledger.fault f
JOIN ledger.enqueued q ON q.at <= f.ended_at AND q.fate = 'ack'
JOIN ledger.effect e ON e.message_id = q.message_id
WHERE e.at > greatest(f.ended_at, q.at + q.delay_ms * interval '1 millisecond') + $1::double precision * interval '1 millisecond'
  AND NOT EXISTS (SELECT FROM ledger.fault g WHERE g.began_at > f.ended_at AND g.began_at < e.at)`,
  },
  {
    verdict: 'over limit',
    rule: 'no more messages are in flight at a time than the queue is set to',
    lasts: true,
    params: ({ queue }) => [queue],
    sql: `
WITH span AS (
  SELECT s.message_id, s.attempt, s.worker, min(s.at) AS began_at, max(e.at) AS ended_at
  FROM ledger.started s JOIN ledger.effect e ON e.message_id = s.message_id AND e.attempt = s.attempt AND e.worker = s.worker
  GROUP BY s.message_id, s.attempt, s.worker
)
SELECT format('%s in flight when message %s began, of %s', count(*), a.message_id, q.concurrency) AS found
FROM sluice.queue q CROSS JOIN span a JOIN span b ON b.began_at <= a.began_at AND b.ended_at > a.began_at
WHERE q.queue = $1
GROUP BY a.message_id, a.attempt, a.worker, q.concurrency
HAVING count(*) > q.concurrency`,
  },
  {
    verdict: 'over limit',
    rule: 'no more messages of a tenant are in flight at a time than each tenant may have',
    params: ({ queue }) => [queue],
    sql: `
WITH span AS (
  SELECT s.message_id, s.attempt, s.worker, n.tenant, min(s.at) AS began_at, max(e.at) AS ended_at
  FROM ledger.started s
  JOIN ledger.enqueued n ON n.message_id = s.message_id AND n.tenant IS NOT NULL
  JOIN ledger.effect e ON e.message_id = s.message_id AND e.attempt = s.attempt AND e.worker = s.worker
  GROUP BY s.message_id, s.attempt, s.worker, n.tenant
)
SELECT format('%s of tenant %s in flight when message %s began, of %s', count(*), a.tenant, a.message_id, q.tenant_concurrency) AS found
FROM sluice.queue q CROSS JOIN span a JOIN span b ON b.tenant = a.tenant AND b.began_at <= a.began_at AND b.ended_at > a.began_at
WHERE q.queue = $1
GROUP BY a.message_id, a.attempt, a.worker, a.tenant, q.tenant_concurrency
HAVING count(*) > q.tenant_concurrency`,
  },
  {
    verdict: 'starved',
    // Such a message waits for no limit, and no rotation but its own. A worker that dies may have it in hand.
    rule: 'while the only message of a tenant waits, and no fault comes, no more than 30 messages of another tenant begin',
    sql: `
WITH begun AS (
  SELECT n.message_id, n.tenant, n.at AS enqueued_at, min(s.at) AS at
  FROM ledger.enqueued n LEFT JOIN ledger.started s ON s.message_id = n.message_id
  WHERE n.tenant IS NOT NULL
  GROUP BY n.message_id, n.tenant, n.at
)
SELECT format('message %s of tenant %s waited while %s of tenant %s began', a.message_id, a.tenant, count(*), b.tenant) AS found
FROM begun a JOIN begun b ON b.tenant <> a.tenant AND b.at BETWEEN a.enqueued_at AND coalesce(a.at, 'infinity')
WHERE NOT EXISTS (SELECT FROM begun o WHERE o.tenant = a.tenant AND o.message_id <> a.message_id)
  AND NOT EXISTS (SELECT FROM ledger.fault f WHERE f.ended_at >= a.enqueued_at AND f.began_at <= coalesce(a.at, 'infinity'))
GROUP BY a.message_id, a.tenant, b.tenant
HAVING count(*) > 30`,
  },
  {
    verdict: 'over rate',
    // A handler begins some time after its token was taken: half a second on a busy machine.
    rule: 'no more messages begin in any time than the tokens of that time and a half second more, and one burst',
    lasts: true,
    params: ({ queue }) => [queue],
    sql: `
WITH begun AS (SELECT s.at, row_number() OVER (ORDER BY s.at) AS place FROM ledger.started s)
SELECT format('%s began in %s ms', b.place - a.place + 1, round(extract(epoch FROM b.at - a.at) * 1000)) AS found
FROM sluice.queue q CROSS JOIN begun a JOIN begun b ON b.place >= a.place
WHERE q.queue = $1
  AND b.place - a.place + 1 > coalesce(q.rate_burst, q.rate) + (extract(epoch FROM b.at - a.at) * 1000 + 500) * q.rate / coalesce(q.rate_ms, 1000)`,
  },
  {
    verdict: 'while paused',
    // What was claimed by then may begin later: in a second on a busy machine.
    rule: 'from one poll interval after a pause until the resume nothing begins; a worker has to be connected to hear of it',
    lasts: true,
    params: ({ pollMs }) => [pollMs + 1_000],
    sql: `
SELECT format('message %s (attempt %s) began with %s, %s ms after the pause', s.message_id, s.attempt, s.worker,
              round(extract(epoch FROM s.at - p.paused_at) * 1000)) AS found
FROM ledger.pause p JOIN ledger.started s ON s.at < p.resumed_at
WHERE s.at > CASE WHEN s.worker = p.deaf THEN p.back_at ELSE p.paused_at END + $1::double precision * interval '1 millisecond'`,
  },
  {
    verdict: 'broken off',
    rule: 'what was in hand when the queue was paused ends before the resume, unless a fault has met its worker',
    sql: `
SELECT format('message %s, which %s began %s ms before the pause', s.message_id, s.worker,
              round(extract(epoch FROM p.paused_at - s.at) * 1000)) AS found
FROM ledger.pause p
JOIN ledger.started s ON s.at <= p.paused_at
JOIN ledger.enqueued q ON q.message_id = s.message_id AND q.fate = 'ack'
WHERE NOT EXISTS (
    SELECT FROM ledger.effect e
    WHERE e.message_id = s.message_id AND e.attempt = s.attempt AND e.worker = s.worker AND e.at < p.resumed_at
  )
  AND NOT EXISTS (SELECT FROM ledger.pause m WHERE s.worker = ANY (m.met))`,
  },
  {
    verdict: 'broken off',
    rule: 'what a process has begun that exits with 0 ends with it',
    sql: `
SELECT format('message %s, which %s began', s.message_id, s.worker) AS found
FROM ledger.exit x
JOIN ledger.started s ON s.worker = x.worker
JOIN ledger.enqueued q ON q.message_id = s.message_id AND q.fate = 'ack'
WHERE x.code = '0' AND NOT EXISTS (
  SELECT FROM ledger.effect e WHERE e.message_id = s.message_id AND e.attempt = s.attempt AND e.worker = s.worker
)`,
  },
  {
    verdict: 'attempts wrong',
    rule: 'what a process gives back is begun again with the same attempt',
    sql: `
SELECT format('message %s: attempt %s with %s, then %s', s.message_id, s.attempt, s.worker, again.attempt) AS found
FROM ledger.exit x
JOIN ledger.started s ON s.worker = x.worker
JOIN ledger.enqueued q ON q.message_id = s.message_id AND q.fate = 'ack'
CROSS JOIN LATERAL (
  SELECT o.attempt FROM ledger.started o WHERE o.message_id = s.message_id AND o.worker <> s.worker AND o.at > s.at
  ORDER BY o.at LIMIT 1
) again
WHERE x.code = '3' AND again.attempt <> s.attempt`,
  },
  {
    verdict: 'wrong exit',
    rule: 'a process exits with 0 after one signal, and with 0 or 3 after two',
    sql: `
SELECT format('%s, after %s signals: %s', x.worker, x.signals, x.code) AS found FROM ledger.exit x
WHERE x.code <> ALL (CASE x.signals WHEN 0 THEN '{SIGKILL}' WHEN 1 THEN '{0}' ELSE '{0,3}' END::text[])`,
  },
  {
    verdict: 'miscounted',
    rule: 'the activity of a worker has no more successes than there are',
    lasts: true,
    sql: `
${ACTIVITY}
SELECT format('%s: %s of %s', w.name, w.counted, w.effects) AS found FROM worker w WHERE w.counted > w.effects`,
  },
  {
    verdict: 'miscounted',
    rule: 'the activity of a worker has all successes, but for those of the last time before now, or before it was killed',
    sql: `
${ACTIVITY}
SELECT format('%s: %s of at least %s', w.name, w.counted, w.due) AS found FROM worker w WHERE w.counted < w.due`,
  },
  {
    verdict: 'audit wrong',
    rule: 'what an operator has done is in the audit as often as it was done, and nothing else is',
    lasts: true,
    sql: `
WITH act AS (
  SELECT a.action, coalesce(a.message_id, 0) AS message_id, count(*) AS times FROM ledger.act a GROUP BY 1, 2
), noted AS (
  SELECT a.action, coalesce(m.id, 0) AS message_id, count(*) AS times
  FROM sluice.action a LEFT JOIN LATERAL unnest(a.message_ids) AS m (id) ON true
  WHERE a.queue IN (SELECT queue FROM ledger.act)
  GROUP BY 1, 2
)
SELECT format('%s of message %s: done %s times, noted %s times', action, message_id, coalesce(act.times, 0), coalesce(noted.times, 0)) AS found
FROM act FULL JOIN noted USING (action, message_id)
WHERE act.times IS DISTINCT FROM noted.times`,
  },
  {
    verdict: 'trace lost',
    rule: 'each attempt of a message is in the trace that its enqueue gave it',
    lasts: true,
    sql: `
SELECT format('message %s, attempt %s: %s, enqueued in %s', q.message_id, s.attempt, coalesce(s.trace, 'none'), q.trace) AS found
FROM ledger.enqueued q JOIN ledger.started s ON s.message_id = q.message_id
WHERE q.trace IS NOT NULL AND s.trace IS DISTINCT FROM q.trace`,
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
SELECT format('batch %s of worker %s', b.id, b.worker_id) FROM sluice.batch_record b WHERE NOT $2::boolean`,
}
