-- What workers have done, added up by queue and time.
--
-- Public functions: sluice.activity.

-- Reads the rows of `since`, by worker_activity_at_idx: at most two days. Buckets: see sluice.worker_activity. The value of one is the
-- middle of its quarter of a doubling, at most 12 % from each duration in it.
CREATE FUNCTION sluice.activity(
  of_queue text DEFAULT NULL, since interval DEFAULT interval '1 hour', step interval DEFAULT interval '1 minute'
) RETURNS TABLE (
  queue text, at timestamptz, acked bigint, retried bigint, snoozed bigint, dead bigint, batches bigint,
  waiting_p50 interval, waiting_p99 interval, waiting_max interval,
  handling_p50 interval, handling_p99 interval, handling_max interval, handling_total interval
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  after timestamptz := clock_timestamp() - since;
BEGIN
  IF since IS NULL OR since <= interval '0' OR since > interval '2 days' THEN
    RAISE EXCEPTION 'since: expected an interval of more than 0, and at most 2 days, received %', coalesce(since::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example since => interval ''6 hours''. Older activity is removed.';
  END IF;
  IF step IS NULL OR step < interval '1 minute' OR step > interval '2 days' THEN
    RAISE EXCEPTION 'step: expected an interval of 1 minute to 2 days, received %', coalesce(step::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example step => interval ''15 minutes''.';
  END IF;
  RETURN QUERY
  WITH part AS MATERIALIZED (
    SELECT q.key AS queue, date_bin(step, a.at, timestamptz '2000-01-01 00:00Z') AS at, q.value AS done
    FROM sluice.worker_activity a CROSS JOIN LATERAL jsonb_each(a.queues) AS q (key, value)
    WHERE a.at > after AND a.at < clock_timestamp() + interval '1 day' AND (of_queue IS NULL OR q.key = of_queue)
      -- As a worker writes it: a login that may work may write anything, and one row must not break the sums of all.
      AND q.value @@ 'strict $.acked >= 0 && $.retried >= 0 && $.snoozed >= 0 && $.dead >= 0 && $.batches >= 0
        && $.waiting.maxMs >= 0 && $.handling.maxMs >= 0 && $.handling.totalMs >= 0
        && !exists($.* ? (@ > 1000000000))
        && !exists($.waiting.buckets.* ? (@.type() != "number"))
        && !exists($.handling.buckets.* ? (@.type() != "number"))
        && !exists($.** ? (@ < 0 || @ > 1000000000000000))'
  ), counted AS (
    SELECT p.queue, p.at, sum((p.done ->> 'acked')::numeric)::bigint AS acked, sum((p.done ->> 'retried')::numeric)::bigint AS retried,
           sum((p.done ->> 'snoozed')::numeric)::bigint AS snoozed, sum((p.done ->> 'dead')::numeric)::bigint AS dead,
           sum((p.done ->> 'batches')::numeric)::bigint AS batches,
           max((p.done #>> '{waiting,maxMs}')::double precision) AS waiting_max,
           max((p.done #>> '{handling,maxMs}')::double precision) AS handling_max,
           sum((p.done #>> '{handling,totalMs}')::double precision) AS handling_total
    FROM part p
    GROUP BY p.queue, p.at
  ), bucket AS (
    SELECT p.queue, p.at, k.kind, b.bucket::integer AS bucket, sum(b.count::numeric) AS count
    FROM part p
    CROSS JOIN (VALUES ('waiting'), ('handling')) AS k (kind)
    CROSS JOIN LATERAL jsonb_each_text(p.done -> k.kind -> 'buckets') AS b (bucket, count)
    WHERE b.bucket ~ '^1?[0-9]{1,2}$'
    GROUP BY p.queue, p.at, k.kind, b.bucket::integer
  ), ranked AS (
    SELECT b.queue, b.at, b.kind,
           power(2.0::double precision, (b.bucket / 4 - 10)::double precision) * (1 + ((b.bucket % 4) + 0.5) / 4)::double precision AS ms,
           sum(b.count) OVER (PARTITION BY b.queue, b.at, b.kind ORDER BY b.bucket) AS up_to,
           sum(b.count) OVER (PARTITION BY b.queue, b.at, b.kind) AS total
    FROM bucket b
  ), quantile AS (
    SELECT r.queue, r.at,
           min(r.ms) FILTER (WHERE r.kind = 'waiting' AND r.up_to >= r.total * 0.5) AS waiting_p50,
           min(r.ms) FILTER (WHERE r.kind = 'waiting' AND r.up_to >= r.total * 0.99) AS waiting_p99,
           min(r.ms) FILTER (WHERE r.kind = 'handling' AND r.up_to >= r.total * 0.5) AS handling_p50,
           min(r.ms) FILTER (WHERE r.kind = 'handling' AND r.up_to >= r.total * 0.99) AS handling_p99
    FROM ranked r
    GROUP BY r.queue, r.at
  )
  SELECT c.queue, c.at, c.acked, c.retried, c.snoozed, c.dead, c.batches,
         least(q.waiting_p50, c.waiting_max) * interval '1 millisecond', least(q.waiting_p99, c.waiting_max) * interval '1 millisecond',
         c.waiting_max * interval '1 millisecond',
         least(q.handling_p50, c.handling_max) * interval '1 millisecond', least(q.handling_p99, c.handling_max) * interval '1 millisecond',
         c.handling_max * interval '1 millisecond', c.handling_total * interval '1 millisecond'
  FROM counted c LEFT JOIN quantile q ON q.queue = c.queue AND q.at = c.at
  ORDER BY c.queue, c.at;
END
$$;
COMMENT ON FUNCTION sluice.activity IS
  'Returns what the workers have done in each step of the last hours, by queue: counts, and how long messages waited and handlers took.';
