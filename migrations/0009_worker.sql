-- What worker processes have done, for whoever looks at them from elsewhere.

-- Written with the heartbeat that is sent anyway, every ten seconds by default, by the process itself:
-- {queue: {acked, retried, snoozed, dead, waiting: {count, meanMs, p50Ms, p90Ms, p99Ms, maxMs}, handling: {...}}}.
ALTER TABLE sluice.worker ADD COLUMN statistics jsonb;

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
COMMENT ON COLUMN sluice.worker_statistics.snoozed IS 'Messages that were put off by snooze.';
COMMENT ON COLUMN sluice.worker_statistics.dead IS 'Messages that became dead letters.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p50 IS 'From when a message fell due until its handler began, in the last five to ten minutes: half of them waited no longer. Null: none began.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p90 IS 'Nine of ten waited no longer.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_p99 IS 'Ninety-nine of a hundred waited no longer.';
COMMENT ON COLUMN sluice.worker_statistics.waiting_max IS 'None waited longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p50 IS 'How long the calls of the handler took, in the same time: half of them took no longer. Null: none ended.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p90 IS 'Nine of ten took no longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_p99 IS 'Ninety-nine of a hundred took no longer.';
COMMENT ON COLUMN sluice.worker_statistics.handling_max IS 'None took longer.';
COMMENT ON COLUMN sluice.worker_statistics.as_of IS 'The heartbeat that brought these numbers, or a later one.';

CREATE OR REPLACE FUNCTION sluice.schema_version(OUT version integer, OUT oldest_client integer)
LANGUAGE sql IMMUTABLE AS 'SELECT 9, 1';
