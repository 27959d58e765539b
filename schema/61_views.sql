-- Views of settings, claims, limits, schedules, workers and streams.
--
-- Public views: sluice.queue_settings, sluice.claims, sluice.limits, sluice.schedules, sluice.worker_statistics,
-- sluice.streams, sluice.group_slots, sluice.groups.

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
COMMENT ON VIEW sluice.queue_settings IS 'One row per queue with settings. Null: the code decides.';
COMMENT ON COLUMN sluice.queue_settings.queue IS 'The queue.';
COMMENT ON COLUMN sluice.queue_settings.paused_at IS 'When it was paused; null: it is not paused.';
COMMENT ON COLUMN sluice.queue_settings.paused_by IS 'The person or login that paused it.';
COMMENT ON COLUMN sluice.queue_settings.pause_reason IS 'The reason for the pause.';
COMMENT ON COLUMN sluice.queue_settings.delay IS 'The delay of messages that were enqueued without a delay or a due time.';
COMMENT ON COLUMN sluice.queue_settings.ttl IS 'Time to live, counted from the due time, of messages without their own.';
COMMENT ON COLUMN sluice.queue_settings.on_expiry IS 'What happens to an expired message: drop or dead_letter.';
COMMENT ON COLUMN sluice.queue_settings.max_attempts IS
  'The number of failed attempts after which a message without its own limit becomes a dead letter.';
COMMENT ON COLUMN sluice.queue_settings.retry IS
  'When failed messages are retried: the name of a policy, or an object with times in milliseconds.';
COMMENT ON COLUMN sluice.queue_settings.payload_limit_bytes IS 'The largest payload in bytes of JSON.';
COMMENT ON COLUMN sluice.queue_settings.history IS 'How long succeeded messages are kept.';
COMMENT ON COLUMN sluice.queue_settings.dead_letter_retention IS 'How long dead letters are kept.';
COMMENT ON COLUMN sluice.queue_settings.rate IS 'How many messages may start per rate_per, in all processes together.';
COMMENT ON COLUMN sluice.queue_settings.rate_per IS 'The interval of rate.';
COMMENT ON COLUMN sluice.queue_settings.rate_burst IS
  'How many may start at once after a quiet time; null: as many as rate.';
COMMENT ON COLUMN sluice.queue_settings.tenant_rate IS 'How many messages of one tenant may start per tenant_rate_per.';
COMMENT ON COLUMN sluice.queue_settings.tenant_rate_per IS 'The interval of tenant_rate.';
COMMENT ON COLUMN sluice.queue_settings.tenant_rate_burst IS
  'How many of one tenant may start at once after a quiet time; null: as many as tenant_rate.';
COMMENT ON COLUMN sluice.queue_settings.concurrency IS 'How many messages may be in flight, in all processes together.';
COMMENT ON COLUMN sluice.queue_settings.tenant_concurrency IS
  'How many messages of one tenant may be in flight, in all processes together.';
COMMENT ON COLUMN sluice.queue_settings.changed_at IS 'When a setting was last changed.';
COMMENT ON COLUMN sluice.queue_settings.changed_by IS 'The name given with that change, or the database user.';

CREATE VIEW sluice.claims AS
SELECT c.queue, c.id, c.claimed_at, c.renewed_at, c.expires_at, c.ttl_ms * interval '1 millisecond' AS ttl,
       (SELECT sluice_private.clock()) - c.renewed_at AS age,
       (SELECT count(*) FROM unnest(c.message_ids) AS given (id)
        JOIN sluice.message m ON m.queue = c.queue AND m.id = given.id AND m.lease = -c.id)::integer AS messages
FROM sluice.claim c
WHERE c.expires_at > (SELECT sluice_private.clock());
COMMENT ON VIEW sluice.claims IS 'Claims that have not expired: sets of messages claimed for a limited time.';
COMMENT ON COLUMN sluice.claims.queue IS 'The queue.';
COMMENT ON COLUMN sluice.claims.id IS 'The claim''s number.';
COMMENT ON COLUMN sluice.claims.claimed_at IS 'When it was made.';
COMMENT ON COLUMN sluice.claims.renewed_at IS 'When it was last renewed, or else made.';
COMMENT ON COLUMN sluice.claims.expires_at IS 'When it expires unless renewed.';
COMMENT ON COLUMN sluice.claims.ttl IS 'The duration that was asked for.';
COMMENT ON COLUMN sluice.claims.age IS 'The time since it was last renewed.';
COMMENT ON COLUMN sluice.claims.messages IS 'The number of its messages that are not settled yet.';

CREATE VIEW sluice.limits AS
WITH clock AS MATERIALIZED (
  SELECT clock_timestamp() AS now
), told AS (
  SELECT q.* FROM sluice.queue q
  WHERE q.concurrency IS NOT NULL OR q.rate IS NOT NULL OR q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL
), held AS (
  SELECT DISTINCT f.queue, f.id FROM sluice.in_flight f WHERE f.worker_alive IS NOT FALSE
), counted AS (
  SELECT m.queue, CASE WHEN grouping(m.tenant) = 1 THEN '' ELSE m.tenant END AS tenant,
         count(*) FILTER (WHERE held.id IS NOT NULL) AS in_flight,
         count(*) FILTER (WHERE held.id IS NULL AND m.due_at <= c.now AND coalesce(m.expires_at > c.now, true)) AS ready
  FROM told t CROSS JOIN clock c
  JOIN sluice.message m ON m.queue = t.queue
  LEFT JOIN held ON held.queue = m.queue AND held.id = m.id
  GROUP BY GROUPING SETS ((m.queue), (m.queue, m.tenant))
  HAVING grouping(m.tenant) = 1 OR m.tenant IS NOT NULL
), limited AS (
  SELECT t.queue, '' AS tenant, t.concurrency, t.rate, coalesce(t.rate_ms, 1000) AS rate_ms, coalesce(t.rate_burst, t.rate) AS burst
  FROM told t
  UNION ALL
  SELECT t.queue, c.tenant, t.tenant_concurrency, t.tenant_rate, coalesce(t.tenant_rate_ms, 1000), coalesce(t.tenant_rate_burst, t.tenant_rate)
  FROM told t JOIN counted c ON c.queue = t.queue AND c.tenant <> ''
  WHERE t.tenant_concurrency IS NOT NULL OR t.tenant_rate IS NOT NULL
)
SELECT l.queue, nullif(l.tenant, '') AS tenant, l.concurrency, coalesce(c.in_flight, 0) AS in_flight, l.rate,
       l.rate_ms * interval '1 millisecond' AS rate_interval, l.burst,
       CASE WHEN l.rate IS NOT NULL THEN coalesce(
         least(l.burst, b.tokens + greatest(0, extract(epoch FROM clock.now - b.at)::double precision * 1000 * l.rate / l.rate_ms)), l.burst
       ) END AS tokens,
       coalesce(c.ready, 0) AS ready
FROM limited l CROSS JOIN clock
LEFT JOIN counted c ON c.queue = l.queue AND c.tenant = l.tenant
LEFT JOIN sluice.bucket b ON b.queue = l.queue AND b.tenant = l.tenant;
COMMENT ON VIEW sluice.limits IS
  'One row per queue with limits, and one per tenant with messages in it: the limits, and how much of them is used.';
COMMENT ON COLUMN sluice.limits.queue IS 'The queue.';
COMMENT ON COLUMN sluice.limits.tenant IS 'The tenant. Null: the queue as a whole.';
COMMENT ON COLUMN sluice.limits.concurrency IS 'How many messages may be in flight. Null: no limit.';
COMMENT ON COLUMN sluice.limits.in_flight IS 'How many are in flight, by the records of workers and claims.';
COMMENT ON COLUMN sluice.limits.rate IS 'How many messages may start per interval. Null: no limit.';
COMMENT ON COLUMN sluice.limits.rate_interval IS 'The interval.';
COMMENT ON COLUMN sluice.limits.burst IS 'How many may start at once after a quiet time.';
COMMENT ON COLUMN sluice.limits.tokens IS 'How many may start now. Null: no limit.';
COMMENT ON COLUMN sluice.limits.ready IS 'Messages that are due and not in flight. If a limit is used up, they wait for it.';

CREATE VIEW sluice.schedules AS
SELECT s.name, s.queue, s.cron, s.every_ms * interval '1 millisecond' AS every, s.zone,
       CASE WHEN s.planned AND s.paused_at IS NULL THEN s.next_at END AS next_at,
       s.last_at, s.last_enqueued_at, s.last_id, s.enqueued, s.skipped, s.error,
       s.paused_at, s.paused_by, s.pause_reason,
       s.missed, s.grace_ms * interval '1 millisecond' AS grace, s.catch_up_most,
       s.catch_up_ms * interval '1 millisecond' AS catch_up_within, s.overlap,
       s.payload, s.headers, s.type, s.schema_version, s.ordering_key, s.priority, s.delay_ms * interval '1 millisecond' AS delay,
       s.max_attempts, s.ttl_ms * interval '1 millisecond' AS ttl, s.retry_policy, s.lease_ms * interval '1 millisecond' AS lease,
       s.tenant, s.created_at, s.changed_at, s.changed_by
FROM sluice.schedule s;
COMMENT ON VIEW sluice.schedules IS 'Schedules: messages that are enqueued at given times.';
COMMENT ON COLUMN sluice.schedules.name IS 'The name of the schedule.';
COMMENT ON COLUMN sluice.schedules.queue IS 'The queue that gets its messages.';
COMMENT ON COLUMN sluice.schedules.cron IS 'Its cron expression; null: it has an interval.';
COMMENT ON COLUMN sluice.schedules.every IS 'Its interval, counted from 1970-01-01 00:00 UTC; null: it has a cron expression.';
COMMENT ON COLUMN sluice.schedules.zone IS 'The time zone of the cron expression.';
COMMENT ON COLUMN sluice.schedules.next_at IS 'The next occurrence. Null: paused, not computed yet, or there is none any more.';
COMMENT ON COLUMN sluice.schedules.last_at IS 'The last occurrence that was enqueued; for a run on demand, its time.';
COMMENT ON COLUMN sluice.schedules.last_enqueued_at IS 'When that was enqueued.';
COMMENT ON COLUMN sluice.schedules.last_id IS 'The id of its message.';
COMMENT ON COLUMN sluice.schedules.enqueued IS 'How many messages it has enqueued.';
COMMENT ON COLUMN sluice.schedules.skipped IS
  'How many occurrences were missed, or skipped because the last message still existed. Long gaps count up to 1,000.';
COMMENT ON COLUMN sluice.schedules.error IS 'Why its next occurrence could not be computed or enqueued.';
COMMENT ON COLUMN sluice.schedules.paused_at IS 'When it was paused; null: it is not paused.';
COMMENT ON COLUMN sluice.schedules.paused_by IS 'The person or login that paused it.';
COMMENT ON COLUMN sluice.schedules.pause_reason IS 'The reason for the pause.';
COMMENT ON COLUMN sluice.schedules.missed IS 'What to do about missed occurrences: skip, last or all.';
COMMENT ON COLUMN sluice.schedules.grace IS 'How late an occurrence may be without being missed.';
COMMENT ON COLUMN sluice.schedules.catch_up_most IS 'The largest number of missed occurrences to enqueue.';
COMMENT ON COLUMN sluice.schedules.catch_up_within IS 'How old a missed occurrence may be to be enqueued.';
COMMENT ON COLUMN sluice.schedules.overlap IS 'False: nothing is enqueued while its last message is queued or in flight.';
COMMENT ON COLUMN sluice.schedules.payload IS 'The content of its messages.';
COMMENT ON COLUMN sluice.schedules.headers IS 'Their headers. Each message also gets schedule and scheduledFor.';
COMMENT ON COLUMN sluice.schedules.type IS 'Their type.';
COMMENT ON COLUMN sluice.schedules.schema_version IS 'The version of the payload''s schema.';
COMMENT ON COLUMN sluice.schedules.ordering_key IS 'Their ordering key.';
COMMENT ON COLUMN sluice.schedules.priority IS 'Their priority.';
COMMENT ON COLUMN sluice.schedules.delay IS 'Their delay; null: the queue''s setting, or none.';
COMMENT ON COLUMN sluice.schedules.max_attempts IS 'Their limit of attempts; null: that of the queue or the pipeline.';
COMMENT ON COLUMN sluice.schedules.ttl IS 'Their time to live; null: the queue''s setting, or unlimited.';
COMMENT ON COLUMN sluice.schedules.retry_policy IS 'The name of their retry policy.';
COMMENT ON COLUMN sluice.schedules.lease IS 'Their lease in leased mode.';
COMMENT ON COLUMN sluice.schedules.tenant IS 'The tenant of its messages.';
COMMENT ON COLUMN sluice.schedules.created_at IS 'When it was defined.';
COMMENT ON COLUMN sluice.schedules.changed_at IS 'When its definition was last changed.';
COMMENT ON COLUMN sluice.schedules.changed_by IS 'The login that last changed it.';

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
FROM sluice.worker w CROSS JOIN LATERAL jsonb_each(w.statistics) AS q (key, value);
COMMENT ON VIEW sluice.worker_statistics IS 'What each worker process has done in each queue, as of its last heartbeat.';
COMMENT ON COLUMN sluice.worker_statistics.worker_id IS 'The worker''s number.';
COMMENT ON COLUMN sluice.worker_statistics.worker IS 'The worker''s name.';
COMMENT ON COLUMN sluice.worker_statistics.queue IS 'The queue.';
COMMENT ON COLUMN sluice.worker_statistics.acked IS 'Messages that it has handled and removed since it started.';
COMMENT ON COLUMN sluice.worker_statistics.retried IS 'Attempts that failed, or asked for a retry.';
COMMENT ON COLUMN sluice.worker_statistics.snoozed IS 'Messages that were snoozed.';
COMMENT ON COLUMN sluice.worker_statistics.dead IS 'Messages that became dead letters.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p50 IS 'From when a message fell due until its handler began, in the last five to ten minutes: half of them waited no longer. Null: none began.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p90 IS 'Nine of ten waited no longer.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p99 IS 'Ninety-nine of a hundred waited no longer.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_max IS 'None waited longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p50 IS 'How long the calls of the handler took, in the same time: half of them took no longer. Null: none ended.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p90 IS 'Nine of ten took no longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p99 IS 'Ninety-nine of a hundred took no longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_max IS 'None took longer.';
COMMENT ON COLUMN sluice.worker_statistics.as_of IS 'The heartbeat that wrote these numbers, or a later one.';

CREATE VIEW sluice.streams AS
SELECT s.stream, s.slots, r.head, s.trimmed_to, r.events, r.bytes, r.segments,
       (SELECT count(*) FROM sluice.stream_group g WHERE g.stream = s.stream) AS groups,
       s.retain_ms * interval '1 millisecond' AS retain, s.retain_bytes, s.keep_unread, s.segment_ms * interval '1 millisecond' AS segment,
       r.open_appends, r.open_pid, (SELECT sluice_private.clock()) - r.open_since AS open_for, s.created_at
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_stream(s.id) r;
COMMENT ON VIEW sluice.streams IS 'One row per stream: how much it has, how long that is kept, and who holds it back.';
COMMENT ON COLUMN sluice.streams.stream IS 'The stream.';
COMMENT ON COLUMN sluice.streams.slots IS 'The number of slots that its ordering keys are divided among.';
COMMENT ON COLUMN sluice.streams.head IS 'The last position that was assigned.';
COMMENT ON COLUMN sluice.streams.trimmed_to IS 'Events at this position and before are gone.';
COMMENT ON COLUMN sluice.streams.events IS 'The number of later positions: about as many events, or fewer.';
COMMENT ON COLUMN sluice.streams.bytes IS 'The size of its tables and indexes in bytes.';
COMMENT ON COLUMN sluice.streams.segments IS 'How many segments it has, including the one attached in advance.';
COMMENT ON COLUMN sluice.streams.groups IS 'The number of its groups.';
COMMENT ON COLUMN sluice.streams.retain IS 'How long a closed segment is kept; null: for ever.';
COMMENT ON COLUMN sluice.streams.retain_bytes IS
  'The size in bytes above which the oldest segments are dropped; null: no limit.';
COMMENT ON COLUMN sluice.streams.keep_unread IS 'Whether segments that a group has not read are kept.';
COMMENT ON COLUMN sluice.streams.segment IS 'How long a segment is open.';
COMMENT ON COLUMN sluice.streams.open_appends IS
  'The number of open transactions that have appended to one slot, in the slot with the most. In these slots no group '
  'reads the events after them.';
COMMENT ON COLUMN sluice.streams.open_pid IS 'The server process of the oldest one; null also for a prepared transaction.';
COMMENT ON COLUMN sluice.streams.open_for IS 'How long that one has been open; null also if the owner of the schema may not see it (pg_read_all_stats).';
COMMENT ON COLUMN sluice.streams.created_at IS 'When it was made.';

CREATE VIEW sluice.group_slots AS
SELECT s.stream, r.name, r.slot, r.position, r.settled, r.next_position, r.unread,
       (SELECT sluice_private.clock()) - r.next_appended_at AS oldest_unread_age, r.moved_at, r.held_until, r.attempt, r.last_error,
       r.open_pid, (SELECT sluice_private.clock()) - r.open_since AS open_for
FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_slots(s.stream, NULL, 1000) r;
COMMENT ON VIEW sluice.group_slots IS 'How far each group has read each slot of its stream.';
COMMENT ON COLUMN sluice.group_slots.stream IS 'The stream.';
COMMENT ON COLUMN sluice.group_slots.name IS 'The group.';
COMMENT ON COLUMN sluice.group_slots.slot IS 'The slot, from 0.';
COMMENT ON COLUMN sluice.group_slots."position" IS 'The group has read the slot up to this position. It moves with events of the slot alone.';
COMMENT ON COLUMN sluice.group_slots.settled IS
  'The slot may be read up to this position now. Behind it an append may be open.';
COMMENT ON COLUMN sluice.group_slots.next_position IS 'The first event that it has not read; null: it has read all.';
COMMENT ON COLUMN sluice.group_slots.unread IS
  'How many events it has not read, including those behind an open append: counted up to 1,000 in four segments, and '
  'estimated from the positions beyond that.';
COMMENT ON COLUMN sluice.group_slots.oldest_unread_age IS 'How long ago the first of them was appended.';
COMMENT ON COLUMN sluice.group_slots.moved_at IS 'When the group read from it last.';
COMMENT ON COLUMN sluice.group_slots.held_until IS
  'When the slot''s failed event is retried, if the group stops on failure or has reached its limit of deferred events; '
  'infinity: it waits until the event is retried or skipped by hand.';
COMMENT ON COLUMN sluice.group_slots.attempt IS 'How often that event has failed.';
COMMENT ON COLUMN sluice.group_slots.last_error IS 'The error of its last attempt.';
COMMENT ON COLUMN sluice.group_slots.open_pid IS
  'The server process of the oldest open transaction that has appended to the slot; null also for a prepared '
  'transaction.';
COMMENT ON COLUMN sluice.group_slots.open_for IS 'How long that transaction has been open.';

CREATE VIEW sluice.groups AS
SELECT g.stream, g.name, g.stream || ':' || g.name AS queue, s.unread, s.oldest_unread_age, s.slots_unread, s.slots_held_back, s.open_for,
       (SELECT count(*) FROM sluice.message m WHERE m.queue = g.stream || ':' || g.name) AS deferred,
       (SELECT count(*) FROM sluice.dead_letter d WHERE d.queue = g.stream || ':' || g.name) AS dead,
       (SELECT count(*) FROM sluice.workers w WHERE w.alive AND g.stream || ':' || g.name = ANY (w.queues)) AS members,
       (SELECT q.paused_at FROM sluice.queue q WHERE q.queue = g.stream || ':' || g.name) AS paused_at,
       s.moved_at, g.lost_from, g.lost_to, s.slots_stopped, g.on_failure, g.defer_limit, g.keep_unread, g.created_at
FROM sluice.stream_group g JOIN (
  SELECT s.stream, r.name, sum(r.unread)::bigint AS unread, (SELECT sluice_private.clock()) - min(r.next_appended_at) AS oldest_unread_age,
         count(r.next_position) AS slots_unread, count(*) FILTER (WHERE r.open_pid IS NOT NULL OR r.open_since IS NOT NULL) AS slots_held_back,
         (SELECT sluice_private.clock()) - min(r.open_since) AS open_for, max(r.moved_at) AS moved_at,
         count(*) FILTER (WHERE r.held_until = 'infinity') AS slots_stopped
  FROM sluice.stream s CROSS JOIN LATERAL sluice_private.read_group_slots(s.stream, NULL, 1000) r GROUP BY s.stream, r.name
) s ON s.stream = g.stream AND s.name = g.name;
COMMENT ON VIEW sluice.groups IS 'One row per group: what it has not read, what waits in its queue, who reads, and what holds it up.';
COMMENT ON COLUMN sluice.groups.stream IS 'The stream.';
COMMENT ON COLUMN sluice.groups.name IS 'The group.';
COMMENT ON COLUMN sluice.groups.queue IS
  'Its queue, which has its failed events, and those that wait behind them, as messages.';
COMMENT ON COLUMN sluice.groups.unread IS
  'How many events it has not read, including those behind an open append: counted up to 1,000 per slot in four '
  'segments, and estimated from the positions beyond that.';
COMMENT ON COLUMN sluice.groups.oldest_unread_age IS 'How long ago the oldest of them was appended.';
COMMENT ON COLUMN sluice.groups.slots_unread IS 'The number of slots with unread events.';
COMMENT ON COLUMN sluice.groups.slots_held_back IS
  'The number of slots with an open append. Events behind it are not read yet.';
COMMENT ON COLUMN sluice.groups.open_for IS 'How long the oldest of them has been open.';
COMMENT ON COLUMN sluice.groups.deferred IS 'Events in its queue, which have failed or wait behind a failed one.';
COMMENT ON COLUMN sluice.groups.dead IS 'Dead letters.';
COMMENT ON COLUMN sluice.groups.members IS 'The number of live worker processes that consume it.';
COMMENT ON COLUMN sluice.groups.paused_at IS 'When it was paused; null: it is not paused.';
COMMENT ON COLUMN sluice.groups.moved_at IS 'When it read last.';
COMMENT ON COLUMN sluice.groups.lost_from IS
  'The first of the events that retention removed before the group had read them. The group reads nothing until it is '
  'moved. Null: none.';
COMMENT ON COLUMN sluice.groups.lost_to IS 'The last of these events.';
COMMENT ON COLUMN sluice.groups.slots_stopped IS 'The number of slots that wait until a failed event is retried or skipped.';
COMMENT ON COLUMN sluice.groups.on_failure IS
  'What happens to a failed event: defer moves it, and the later ones of its key, to the group''s queue; stop makes its '
  'slot wait for it.';
COMMENT ON COLUMN sluice.groups.defer_limit IS 'The number of events that may be deferred before slots wait.';
COMMENT ON COLUMN sluice.groups.keep_unread IS
  'Whether events that it has not read are kept; null: the stream''s setting, unless it is paused.';
COMMENT ON COLUMN sluice.groups.created_at IS 'When it was made.';
