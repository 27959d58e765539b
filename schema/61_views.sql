-- Views of settings, claims, limits, schedules, workers, streams and actions.
--
-- Public views: sluice.queue_settings, sluice.claims, sluice.limits, sluice.schedules, sluice.worker_statistics,
-- sluice.streams, sluice.group_partitions, sluice.groups, sluice.audit.

CREATE VIEW sluice.queue_settings AS
SELECT q.queue, q.paused_at, q.paused_by, q.pause_reason,
       q.delay_ms * interval '1 millisecond' AS delay, q.ttl_ms * interval '1 millisecond' AS ttl, q.on_expiry,
       q.max_attempts, q.retry, q.payload_limit_bytes,
       q.history_ms * interval '1 millisecond' AS history,
       q.dead_letter_retention_ms * interval '1 millisecond' AS dead_letter_retention,
       q.rate, q.rate_ms * interval '1 millisecond' AS rate_per, q.rate_burst,
       q.tenant_rate, q.tenant_rate_ms * interval '1 millisecond' AS tenant_rate_per, q.tenant_rate_burst,
       q.concurrency, q.tenant_concurrency, q.changed_at, q.changed_by
FROM sluice.queue q;
SELECT sluice_private.describe('{queue_settings}', $$
*: One row per queue with settings. Null: the code decides.
queue: The queue.
paused_at: When it was paused; null: it is not paused.
paused_by: The person or login that paused it.
pause_reason: The reason for the pause.
delay: The delay of messages that were enqueued without a delay or a due time.
ttl: Time to live, counted from the due time, of messages without their own.
on_expiry: What happens to an expired message: drop or dead_letter.
max_attempts: The number of failed attempts after which a message without its own limit becomes a dead letter.
retry: When failed messages are retried: the name of a policy, or an object with times in milliseconds.
payload_limit_bytes: The largest payload in bytes of JSON.
history: How long succeeded messages are kept.
dead_letter_retention: How long dead letters are kept.
rate: How many messages may start per rate_per, in all processes together.
rate_per: The interval of rate.
rate_burst: How many may start at once after a quiet time; null: as many as rate.
tenant_rate: How many messages of one tenant may start per tenant_rate_per.
tenant_rate_per: The interval of tenant_rate.
tenant_rate_burst: How many of one tenant may start at once after a quiet time; null: as many as tenant_rate.
concurrency: How many messages may be in flight, in all processes together.
tenant_concurrency: How many messages of one tenant may be in flight, in all processes together.
changed_at: When a setting was last changed.
changed_by: The name given with that change, or the database user.
$$);

CREATE VIEW sluice.claims AS
SELECT c.queue, c.id, c.claimed_at, c.renewed_at, c.expires_at, c.lease_ms * interval '1 millisecond' AS lease,
       (SELECT sluice_private.clock()) - c.renewed_at AS age,
       (SELECT count(*) FROM unnest(c.message_ids) AS given (id)
        JOIN sluice.message m ON m.queue = c.queue AND m.id = given.id AND m.lease = -c.id)::integer AS messages
FROM sluice.claim c
WHERE c.expires_at > (SELECT sluice_private.clock());
SELECT sluice_private.describe('{claims}', $$
*: Claims that have not expired: sets of messages claimed for a limited time.
queue: The queue.
id: The claim's number.
claimed_at: When it was made.
renewed_at: When it was last renewed, or else made.
expires_at: When it expires unless renewed.
lease: The duration that was asked for.
age: The time since it was last renewed.
messages: The number of its messages that are not settled yet.
$$);

CREATE VIEW sluice.limits AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), with_limits AS (
  SELECT q.* FROM sluice.queue q
  WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL
), held AS (
  SELECT DISTINCT f.queue, f.id FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE
), counted AS (
  SELECT m.queue, CASE WHEN grouping(m.tenant) = 1 THEN '' ELSE m.tenant END AS tenant,
         count(*) FILTER (WHERE held.id IS NOT NULL) AS in_flight,
         count(*) FILTER (WHERE held.id IS NULL AND m.due_at <= c.now AND coalesce(m.expires_at > c.now, true)) AS ready
  FROM with_limits t CROSS JOIN clock c
  JOIN sluice.message m ON m.queue = t.queue
  LEFT JOIN held ON held.queue = m.queue AND held.id = m.id
  GROUP BY GROUPING SETS ((m.queue), (m.queue, m.tenant))
  HAVING grouping(m.tenant) = 1 OR m.tenant IS NOT NULL
), limited AS (
  SELECT t.queue, '' AS tenant, t.concurrency, t.rate, coalesce(t.rate_ms, 1000) AS rate_ms,
    coalesce(t.rate_burst, t.rate) AS burst
  FROM with_limits t
  UNION ALL
  SELECT t.queue, c.tenant, CASE WHEN t.tenant_concurrency IS NOT NULL THEN coalesce(e.concurrency, t.tenant_concurrency) END,
    t.tenant_rate, coalesce(t.tenant_rate_ms, 1000),
    coalesce(t.tenant_rate_burst, t.tenant_rate)
  FROM with_limits t JOIN counted c ON c.queue = t.queue AND c.tenant <> ''
  LEFT JOIN sluice.endpoint e ON e.queue = c.queue AND e.name = c.tenant
  WHERE t.tenant_concurrency IS NOT NULL OR t.tenant_rate IS NOT NULL
)
SELECT l.queue, nullif(l.tenant, '') AS tenant, l.concurrency, coalesce(c.in_flight, 0) AS in_flight, l.rate,
       l.rate_ms * interval '1 millisecond' AS rate_interval, l.burst,
       CASE WHEN l.rate IS NOT NULL THEN coalesce(
         least(l.burst, b.tokens + greatest(0,
           extract(epoch FROM clock.now - b.at)::double precision * 1000 * l.rate / l.rate_ms)), l.burst
       ) END AS tokens,
       coalesce(c.ready, 0) AS ready
FROM limited l CROSS JOIN clock
LEFT JOIN counted c ON c.queue = l.queue AND c.tenant = l.tenant
LEFT JOIN sluice.bucket b ON b.queue = l.queue AND b.tenant = l.tenant;
SELECT sluice_private.describe('{limits}', $$
*: One row per queue with limits, and one per tenant with messages in it: the limits, and how much of them is used.
queue: The queue.
tenant: The tenant. Null: the queue as a whole.
concurrency: How many messages may be in flight. Null: no limit.
in_flight: How many are in flight, by the records of workers and claims.
rate: How many messages may start per interval. Null: no limit.
rate_interval: The interval.
burst: How many may start at once after a quiet time.
tokens: How many may start now. Null: no limit.
ready: Messages that are due and not in flight. If a limit is used up, they wait for it.
$$);

CREATE VIEW sluice.schedules AS
SELECT s.name, s.queue, s.cron, s.every_ms * interval '1 millisecond' AS every, s.zone,
       CASE WHEN s.planned AND s.paused_at IS NULL THEN s.next_at END AS next_at,
       s.last_at, s.last_enqueued_at, s.last_id, s.enqueued, s.skipped, s.error,
       s.paused_at, s.paused_by, s.pause_reason,
       s.missed, s.grace_ms * interval '1 millisecond' AS grace, s.catch_up_most,
       s.catch_up_ms * interval '1 millisecond' AS catch_up_within, s.overlap,
       s.payload, s.headers, s.type, s.schema_version, s.ordering_key, s.priority,
       s.delay_ms * interval '1 millisecond' AS delay, s.max_attempts, s.ttl_ms * interval '1 millisecond' AS ttl,
       s.retry_policy, s.lease_ms * interval '1 millisecond' AS lease, s.tenant, s.created_at, s.changed_at, s.changed_by
FROM sluice.schedule s;
SELECT sluice_private.describe('{schedules}', $$
*: Schedules: messages that are enqueued at given times.
name: The name of the schedule.
queue: The queue that gets its messages.
cron: Its cron expression; null: it has an interval.
every: Its interval, counted from 1970-01-01 00:00 UTC; null: it has a cron expression.
zone: The time zone of the cron expression.
next_at: The next occurrence. Null: paused, not computed yet, or there is none any more.
last_at: The last occurrence that was enqueued; for a run on demand, its time.
last_enqueued_at: When that was enqueued.
last_id: The id of its message.
enqueued: How many messages it has enqueued.
skipped: How many occurrences were missed, or skipped because the last message still existed. Long gaps count up to 1,000.
error: Why its next occurrence could not be computed or enqueued.
paused_at: When it was paused; null: it is not paused.
paused_by: The person or login that paused it.
pause_reason: The reason for the pause.
missed: What to do about missed occurrences: skip, last or all.
grace: How late an occurrence may be without being missed.
catch_up_most: The largest number of missed occurrences to enqueue.
catch_up_within: How old a missed occurrence may be to be enqueued.
overlap: False: nothing is enqueued while its last message is queued or in flight.
payload: The content of its messages.
headers: Their headers. Each message also gets schedule and scheduledFor.
type: Their type.
schema_version: The version of the payload's schema.
ordering_key: Their ordering key.
priority: Their priority.
delay: Their delay; null: the queue's setting, or none.
max_attempts: Their limit of attempts; null: that of the queue or the pipeline.
ttl: Their time to live; null: the queue's setting, or unlimited.
retry_policy: The name of their retry policy.
lease: Their lease in leased mode.
tenant: The tenant of its messages.
created_at: When it was defined.
changed_at: When its definition was last changed.
changed_by: The login that last changed it.
$$);

CREATE VIEW sluice.worker_statistics AS
SELECT w.id AS worker_id, w.name AS worker, q.key AS queue,
       (q.value ->> 'acked')::bigint AS acked,
       (q.value ->> 'retried')::bigint AS retried,
       (q.value ->> 'snoozed')::bigint AS snoozed,
       (q.value ->> 'dead')::bigint AS dead,
       (q.value #>> '{waiting,p50Ms}')::double precision * interval '1 millisecond' AS waiting_p50,
       (q.value #>> '{waiting,p90Ms}')::double precision * interval '1 millisecond' AS waiting_p90,
       (q.value #>> '{waiting,p99Ms}')::double precision * interval '1 millisecond' AS waiting_p99,
       (q.value #>> '{waiting,maxMs}')::double precision * interval '1 millisecond' AS waiting_max,
       (q.value #>> '{handling,p50Ms}')::double precision * interval '1 millisecond' AS handling_p50,
       (q.value #>> '{handling,p90Ms}')::double precision * interval '1 millisecond' AS handling_p90,
       (q.value #>> '{handling,p99Ms}')::double precision * interval '1 millisecond' AS handling_p99,
       (q.value #>> '{handling,maxMs}')::double precision * interval '1 millisecond' AS handling_max,
       w.seen_at AS as_of
FROM sluice.worker w CROSS JOIN LATERAL jsonb_each(w.statistics) AS q (key, value)
-- A queue into which an inbox of the process enqueues may have no consumer there.
WHERE q.value ? 'acked';
SELECT sluice_private.describe('{worker_statistics}', $$
*: What each worker process has done in each queue, as of its last heartbeat.
worker_id: The worker's number.
worker: The worker's name.
queue: The queue.
acked: Messages that it has handled and removed since it started.
retried: Attempts that failed, or asked for a retry.
snoozed: Messages that were snoozed.
dead: Messages that became dead letters.
waiting_p50: From when a message fell due until its handler began, in the last five to ten minutes: half of them waited no
  longer. Null: none began.
waiting_p90: Nine of ten waited no longer.
waiting_p99: Ninety-nine of a hundred waited no longer.
waiting_max: None waited longer.
handling_p50: How long the calls of the handler took, in the same time: half of them took no longer. Null: none ended.
handling_p90: Nine of ten took no longer.
handling_p99: Ninety-nine of a hundred took no longer.
handling_max: None took longer.
as_of: The heartbeat that wrote these numbers, or a later one.
$$);

CREATE VIEW sluice.streams AS
SELECT s.stream, s.partitions, r.head, s.trimmed_to, r.events, r.bytes, r.segments,
       (SELECT count(*) FROM sluice.stream_group g WHERE g.stream = s.stream) AS groups,
       s.retain_ms * interval '1 millisecond' AS retain, s.retain_bytes, s.keep_unread,
       s.segment_ms * interval '1 millisecond' AS segment, r.open_appends, r.open_pid,
       (SELECT sluice_private.clock()) - r.open_since AS open_for, s.created_at
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_stream(s.id) r;
SELECT sluice_private.describe('{streams}', $$
*: One row per stream: how much it has, how long that is kept, and who holds it back.
stream: The stream.
partitions: The number of partitions that its ordering keys are divided among.
head: The last position that was assigned.
trimmed_to: Events at this position and before are gone.
events: The number of later positions: about as many events, or fewer.
bytes: The size of its tables and indexes in bytes.
segments: How many segments it has, including the one attached in advance.
groups: The number of its groups.
retain: How long a closed segment is kept; null: for ever.
retain_bytes: The size in bytes above which the oldest segments are dropped; null: no limit.
keep_unread: Whether segments that a group has not read are kept.
segment: How long a segment is open.
open_appends: The number of open transactions that have appended to one partition, in the partition with the most. In these partitions no
  group reads the events after them.
open_pid: The server process of the oldest one; null also for a prepared transaction.
open_for: How long that one has been open; null also if the owner of the schema may not see it (pg_read_all_stats).
created_at: When it was made.
$$);

CREATE VIEW sluice.group_partitions AS
SELECT s.stream, r.name, r.partition, r.position, r.stable_end, r.next_position, r.unread,
       (SELECT sluice_private.clock()) - r.next_appended_at AS oldest_unread_age, r.moved_at, r.held_until, r.attempt,
       r.last_error, r.open_pid, (SELECT sluice_private.clock()) - r.open_since AS open_for, r.failures
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_partitions(s.stream, NULL, 1000) r;
SELECT sluice_private.describe('{group_partitions}', $$
*: How far each group has read each partition of its stream.
stream: The stream.
name: The group.
partition: The partition, from 0.
position: The group has read the partition up to this position. It moves with events of the partition alone.
stable_end: The partition may be read up to this position now. Behind it an append may be open.
next_position: The first event that it has not read; null: it has read all.
unread: How many events it has not read, including those behind an open append: counted up to 1,000 in four segments, and
  estimated from the positions beyond that.
oldest_unread_age: How long ago the first of them was appended.
moved_at: When the group read from it last.
held_until: When the partition's failed event is retried, if the group stops on failure or has reached its limit of deferred
  events; infinity: it waits until the event is retried or skipped by hand.
attempt: How often that event has failed.
last_error: The error of its last attempt.
open_pid: The server process of the oldest open transaction that has appended to the partition; null also for a prepared
  transaction.
open_for: How long that transaction has been open.
failures: The last five failures of that event, the latest last: attempt, at, error, the worker if known, and the stack of the
  latest if known. Null: none failed.
$$);

CREATE VIEW sluice.groups AS
SELECT g.stream, g.name, g.stream || ':' || g.name AS queue, s.unread, s.oldest_unread_age, s.partitions_unread,
       s.partitions_held_back, s.open_for,
       (SELECT count(*) FROM sluice.message m WHERE m.queue = g.stream || ':' || g.name) AS deferred,
       (SELECT count(*) FROM sluice.dead_letter d WHERE d.queue = g.stream || ':' || g.name) AS dead,
       (SELECT count(*) FROM sluice.workers w WHERE w.alive AND g.stream || ':' || g.name = ANY (w.queues)) AS members,
       (SELECT q.paused_at FROM sluice.queue q WHERE q.queue = g.stream || ':' || g.name) AS paused_at, s.moved_at,
       g.lost_from, g.lost_to, s.partitions_stopped, g.on_failure, g.defer_limit, g.keep_unread, g.created_at
FROM sluice.stream_group g JOIN (
  SELECT s.stream, r.name, sum(r.unread)::bigint AS unread,
         (SELECT sluice_private.clock()) - min(r.next_appended_at) AS oldest_unread_age,
         count(r.next_position) AS partitions_unread,
         count(*) FILTER (WHERE r.open_pid IS NOT NULL OR r.open_since IS NOT NULL) AS partitions_held_back,
         (SELECT sluice_private.clock()) - min(r.open_since) AS open_for, max(r.moved_at) AS moved_at,
         count(*) FILTER (WHERE r.held_until = 'infinity') AS partitions_stopped
  FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_partitions(s.stream, NULL, 1000) r GROUP BY s.stream, r.name
) s ON s.stream = g.stream AND s.name = g.name;
SELECT sluice_private.describe('{groups}', $$
*: One row per group: what it has not read, what waits in its queue, who reads, and what holds it up.
stream: The stream.
name: The group.
queue: Its queue, which has its failed events, and those that wait behind them, as messages.
unread: How many events it has not read, including those behind an open append: counted up to 1,000 per partition in four
  segments, and estimated from the positions beyond that.
oldest_unread_age: How long ago the oldest of them was appended.
partitions_unread: The number of partitions with unread events.
partitions_held_back: The number of partitions with an open append. Events behind it are not read yet.
open_for: How long the oldest of them has been open.
deferred: Events in its queue, which have failed or wait behind a failed one.
dead: Dead letters.
members: The number of live worker processes that consume it.
paused_at: When it was paused; null: it is not paused.
moved_at: When it read last.
lost_from: The first of the events that retention removed before the group had read them. The group reads nothing until it
  is moved. Null: none.
lost_to: The last of these events.
partitions_stopped: The number of partitions that wait until a failed event is retried or skipped.
on_failure: What happens to a failed event: defer moves it, and the later ones of its key, to the group's queue; stop
  makes its partition wait for it.
defer_limit: The number of events that may be deferred before partitions wait.
keep_unread: Whether events that it has not read are kept; null: the stream's setting, unless it is paused.
created_at: When it was made.
$$);

-- Pages by action_pkey, and those of a queue by action_queue_idx.
CREATE VIEW sluice.audit AS
SELECT a.at, a.id, a.actor, a.login, a.application, a.action, a.queue, a.subject, a.message_ids, a.count, a.details
FROM sluice.action a;
SELECT sluice_private.describe('{audit}', $$
*: Who did what: one row per call of an operator or an administrator that changed something.
at: When.
id: Its number.
actor: The person or login that the call named; otherwise the login.
login: The database user.
application: The application_name of the session.
action: What was done, for example message.cancel, dead.redrive or queue.pause.
queue: The queue, or stream:group; null: it concerned none.
subject: The dedupe key, the schedule, the stream, the endpoint or the number of the claim.
message_ids: The ids of the messages, at most 100.
count: How many messages, keys, events or partitions it changed; otherwise 1.
details: What the call was given and what it did, without payloads.
$$);
