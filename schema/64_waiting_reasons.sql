-- Reasons why a message that is not in flight waits: its queue, its key, limits, and what goes before it.

-- The queue is paused, and a group with its queue.
CREATE FUNCTION sluice_private.why_paused(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.queue q CROSS JOIN LATERAL sluice_private.say('paused',
    format('%s "%s" was paused %s ago%s',
      CASE WHEN sluice_private.is_of_group(q.queue) THEN 'Group' ELSE 'Queue' END, q.queue,
      sluice_private.span_words(q.paused_at), coalesce(' by ' || sluice_private.quoted(q.paused_by), ''))
      || coalesce(': ' || sluice_private.quoted(q.pause_reason), '') || '.',
    since => q.paused_at, details => jsonb_build_object('pausedBy', q.paused_by, 'pauseReason', q.pause_reason),
    remedy => CASE WHEN sluice_private.is_of_group(q.queue)
      THEN format('npx sluice group resume %s', replace(q.queue, ':', ' '))
      ELSE format('npx sluice queue resume %s', q.queue) END) s
  WHERE q.queue = why_paused.queue AND q.paused_at IS NOT NULL
$$;

-- No live worker consumes the queue. The live ones consume others, perhaps one of nearly the same name.
CREATE FUNCTION sluice_private.why_no_worker(queue text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  consumed text[];
  nearest text;
  gone record;
  claimed_at timestamptz;
BEGIN
  IF EXISTS (SELECT FROM sluice.workers w WHERE queue = ANY (w.queues) AND w.alive) THEN
    RETURN;
  END IF;
  consumed := ARRAY(SELECT DISTINCT c.name FROM sluice.workers w CROSS JOIN LATERAL unnest(w.queues) AS c (name)
    WHERE w.alive ORDER BY c.name LIMIT 50);
  nearest := sluice_private.nearest_name(queue, consumed);
  SELECT w.name, w.seen_at INTO gone FROM sluice.worker w WHERE queue = ANY (w.queues) ORDER BY w.seen_at DESC LIMIT 1;
  SELECT c.claimed_at INTO claimed_at FROM sluice.claim c WHERE c.queue = queue ORDER BY c.expires_at DESC LIMIT 1;
  RETURN NEXT sluice_private.say('no_worker', concat_ws(' ',
    format('No live worker consumes queue "%s".', queue),
    CASE WHEN nearest IS NOT NULL THEN format('Did you mean "%s"? A worker consumes that.', nearest)
         WHEN consumed = '{}' THEN 'No worker is alive in this database.'
         ELSE format('Live workers consume %s.', array_to_string(
           consumed[1:5] || CASE WHEN cardinality(consumed) > 5 THEN ARRAY['others'] END, ', ')) END,
    'Worker ' || sluice_private.quoted(gone.name) || ', which did, was last seen '
      || sluice_private.span_words(gone.seen_at) || ' ago.',
    'A claim took messages from it ' || sluice_private.span_words(claimed_at) || ' ago.'),
    since => gone.seen_at, remedy => 'npx sluice status',
    details => jsonb_build_object('nearest', nearest, 'consumed', to_jsonb(nullif(consumed[1:10], '{}')),
      'lastWorker', gone.name, 'lastClaimAt', claimed_at));
END
$$;

-- The message of its key that comes first: for which the key is held in its slot, or which is or was leased. In a
-- pipeline that keeps the order of the whole queue, messages without a key have slot 256.
CREATE FUNCTION sluice_private.why_held(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  hold jsonb := sluice_private.hold_of(m);
  held_until timestamptz := timestamptz 'epoch' + (hold ->> 1)::bigint * interval '1 microsecond';
  first_id bigint := CASE WHEN held_until > clock_timestamp() THEN (hold ->> 0)::bigint END;
  other sluice.message;
  state text;
BEGIN
  IF first_id IS NULL OR first_id = m.id THEN
    held_until := NULL;
    -- By message_lease_idx, from the first of the slot on: the first 10,000 that closed a key of it.
    SELECT e.id INTO first_id FROM (
      SELECT e.id, e.ordering_key FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.lease IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot
      ORDER BY e.slot, e.id, e.lease LIMIT 10000
    ) e WHERE e.ordering_key = m.ordering_key LIMIT 1;
  END IF;
  IF first_id IS NULL OR first_id = m.id THEN
    RETURN;
  END IF;
  SELECT e.* INTO other FROM sluice.message e WHERE e.queue = m.queue AND e.id = first_id;
  held_until := coalesce(held_until, CASE WHEN other.due_at > clock_timestamp() THEN other.due_at END);
  state := CASE
    WHEN other.id IS NULL THEN 'which is gone: the next look of a worker frees the key'
    WHEN other.lease <> 0 AND other.due_at > clock_timestamp() THEN 'which is in flight under a lease'
    WHEN other.due_at <= clock_timestamp() THEN 'which is due'
    WHEN other.attempt > 0 THEN format('whose attempt %s failed, and which is tried again in %s', other.attempt,
      sluice_private.span_words(other.due_at))
    ELSE format('which was put off, and is due in %s', sluice_private.span_words(other.due_at)) END;
  RETURN NEXT sluice_private.say('held', format('%s waits for message %s, %s.', CASE WHEN m.ordering_key IS NULL
    THEN 'The queue is handled in order, and' ELSE 'Its ordering key ' || sluice_private.quoted(m.ordering_key) END,
    first_id, state) || coalesce(' Its error: ' || sluice_private.quoted(other.last_error) || '.', ''),
    since => other.failed_at, until => held_until,
    details => jsonb_build_object('message', first_id::text, 'attempt', other.attempt,
      'error', left(other.last_error, 2000)),
    remedy => format(CASE WHEN other.due_at > clock_timestamp() AND coalesce(other.lease, 0) = 0
      THEN 'npx sluice message run-now %s %s' ELSE 'npx sluice explain %s %s' END, m.queue, first_id));
END
$$;

-- A batch has locked the slot of its key. Which message of the slot it has is known as far as the first 200
-- records and 20 messages of each go.
CREATE FUNCTION sluice_private.why_slot_busy(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT (locks ->> s.xmax::text)::integer FROM sluice.slot s
    WHERE s.queue = m.queue AND s.slot = coalesce(m.slot, 256));
  found_one record;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.worker_id, other.id, other.ordering_key IS NOT DISTINCT FROM m.ordering_key AS same_key, w.name, b.claimed_at
  INTO found_one
  FROM (SELECT b.* FROM sluice_private.batch_records() b WHERE b.queue = m.queue AND NOT b.leased LIMIT 200) b
  CROSS JOIN LATERAL unnest(b.message_ids[1:20]) AS given (id)
  CROSS JOIN LATERAL (
    SELECT o.id, o.ordering_key FROM sluice.message o
    WHERE o.queue = m.queue AND o.id = given.id AND o.slot IS NOT DISTINCT FROM m.slot LIMIT 1
  ) other
  JOIN sluice.worker w ON w.id = b.worker_id
  ORDER BY 3 DESC LIMIT 1;
  RETURN NEXT sluice_private.say('slot_busy', CASE WHEN m.slot IS NULL
      THEN 'A batch that keeps the order of the whole queue is in flight'
      ELSE format('A batch has slot %s of 256, to which its ordering key %s belongs', m.slot,
        sluice_private.quoted(m.ordering_key)) END
    || CASE WHEN found_one.id IS NULL THEN '.' ELSE format(': worker %s has message %s of %s.',
      sluice_private.quoted(found_one.name), found_one.id, CASE WHEN m.slot IS NULL THEN 'the queue'
        WHEN found_one.same_key THEN 'the same key' ELSE 'another key there' END) END,
    since => found_one.claimed_at,
    details => jsonb_build_object('slot', coalesce(m.slot, 256), 'message', found_one.id::text,
      'worker', found_one.name, 'sameKey', found_one.same_key),
    remedy => 'npx sluice explain ' || m.queue || ' ' || found_one.id, pid => holder);
END
$$;

-- Up to `most` permits of a queue (tenant '') or of a tenant that are taken: how many each of their holders has.
CREATE FUNCTION sluice_private.permits_taken(queue text, tenant text, most integer, locks jsonb)
RETURNS TABLE (holder text, count bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT t.holder, count(*) FROM (
    SELECT CASE WHEN m.lease > 0 THEN 'worker ' || coalesce((
             SELECT sluice_private.quoted(w.name) FROM sluice.worker w WHERE w.id = (m.lease >> 32)::integer
           ), 'unknown')
           WHEN m.lease < 0 THEN 'claim ' || -m.lease
           WHEN locks ->> p.xmax::text = '0' THEN 'a prepared transaction'
           ELSE 'server process ' || (locks ->> p.xmax::text) END AS holder
    FROM (
      SELECT p.message_id, p.lease, p.xmax FROM sluice.permit p
      WHERE p.queue = permits_taken.queue AND p.tenant = permits_taken.tenant
      ORDER BY p.queue, p.tenant, p.n LIMIT permits_taken.most
    ) p LEFT JOIN LATERAL (
      SELECT m.lease FROM sluice.message m
      WHERE m.queue = permits_taken.queue AND m.id = p.message_id AND m.lease = p.lease AND m.due_at > clock_timestamp()
      LIMIT 1
    ) m ON true
  ) t
  WHERE t.holder IS NOT NULL GROUP BY t.holder ORDER BY 2 DESC, 1
$$;

-- All permits of the queue, or of the tenant, are taken: as many as its limit, which is at most 10,000, are looked at.
CREATE FUNCTION sluice_private.why_no_permit(queue text, tenant text, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  most integer := (SELECT CASE tenant WHEN '' THEN q.concurrency ELSE q.tenant_concurrency END FROM sluice.queue q
    WHERE q.queue = queue);
  taken bigint;
  holders jsonb;
  words text;
BEGIN
  IF most IS NULL OR tenant IS NULL THEN
    RETURN;
  END IF;
  SELECT sum(t.count), jsonb_agg(jsonb_build_object('holder', t.holder, 'count', t.count)) FILTER (WHERE t.at <= 10),
         string_agg(format('%s has %s', t.holder, t.count), ', ') FILTER (WHERE t.at <= 3)
  INTO taken, holders, words
  FROM (SELECT t.*, row_number() OVER () AS at FROM sluice_private.permits_taken(queue, tenant, 10000, locks) t) t;
  IF taken >= most THEN
    RETURN NEXT sluice_private.say(CASE tenant WHEN '' THEN 'queue_limit' ELSE 'tenant_limit' END,
      format('%s has its limit of %s in flight: %s%s.', CASE tenant WHEN '' THEN format('Queue "%s"', queue)
        ELSE 'Tenant ' || sluice_private.quoted(tenant) END, sluice_private.counted(most, 'message'), words,
        CASE WHEN jsonb_array_length(holders) > 3 THEN ', and others more' END),
      details => jsonb_build_object('concurrency', most, 'taken', taken, 'holders', holders,
        'tenant', nullif(tenant, '')),
      remedy => format('npx sluice queue set %s --%sconcurrency %s', queue,
        CASE tenant WHEN '' THEN '' ELSE 'tenant-' END, least(most * 2, 10000)));
  END IF;
END
$$;

-- The rate of the queue, or of the tenant, leaves no token now.
CREATE FUNCTION sluice_private.why_no_token(queue text, tenant text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  flow record;
  next_at timestamptz;
BEGIN
  SELECT r.rate, r.ms, b.tokens, b.at INTO flow
  FROM sluice.queue q CROSS JOIN LATERAL (
    SELECT CASE tenant WHEN '' THEN q.rate ELSE q.tenant_rate END AS rate,
           coalesce(CASE tenant WHEN '' THEN q.rate_ms ELSE q.tenant_rate_ms END, 1000) AS ms
  ) r JOIN sluice.bucket b ON b.queue = q.queue AND b.tenant = tenant
  WHERE q.queue = queue AND r.rate IS NOT NULL;
  next_at := flow.at + (1 - flow.tokens) * flow.ms / flow.rate * interval '1 millisecond';
  IF next_at > clock_timestamp() THEN
    RETURN NEXT sluice_private.say(CASE tenant WHEN '' THEN 'queue_rate' ELSE 'tenant_rate' END,
      format('%s may begin %s in %s, and has begun them: the next token comes in %s.', CASE tenant
        WHEN '' THEN format('Queue "%s"', queue) ELSE 'Tenant ' || sluice_private.quoted(tenant) END,
        sluice_private.counted(flow.rate, 'message'), sluice_private.ms_words(flow.ms),
        sluice_private.span_words(next_at)),
      until => next_at,
      details => jsonb_build_object('rate', flow.rate, 'rateMs', flow.ms, 'tenant', nullif(tenant, '')),
      remedy => format('npx sluice queue set %s --%srate %s/%sms', queue,
        CASE tenant WHEN '' THEN '' ELSE 'tenant-' END, flow.rate * 2, flow.ms));
  END IF;
END
$$;

-- How many messages go before one that is due, up to 1,001. Without a key: those of lower priority numbers that are
-- due, and those of its own that were due before it, by message_due_idx; in a queue that shares out among tenants,
-- those of its tenant, by message_tenant_idx. With a key: those of its key among the first 1,001 of its slot before it.
CREATE FUNCTION sluice_private.count_before(m sluice.message, by_tenant boolean, OUT count bigint, OUT more boolean)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  IF m.slot IS NOT NULL THEN
    SELECT count(*) FILTER (WHERE e.ordering_key = m.ordering_key AND e.due_at <= now_at), count(*) > 1000
    INTO count, more FROM (
      SELECT e.ordering_key, e.due_at FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot AND e.id < m.id
      ORDER BY e.slot, e.id LIMIT 1001
    ) e;
  ELSIF by_tenant THEN
    SELECT count(*), count(*) > 1000 INTO count, more FROM (
      SELECT FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id FROM sluice.message e
        WHERE e.queue = m.queue AND e.tenant IS NOT NULL AND e.tenant = m.tenant AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  ELSE
    SELECT count(*), count(*) > 1000 INTO count, more FROM (
      SELECT FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id FROM sluice.message e
        WHERE e.queue = m.queue AND e.slot IS NULL AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  END IF;
END
$$;

-- It is due: how many go before it, or none.
CREATE FUNCTION sluice_private.why_behind(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  by_tenant boolean := m.tenant IS NOT NULL AND EXISTS (SELECT FROM sluice.queue q
    WHERE q.queue = m.queue AND (q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL));
  before record := sluice_private.count_before(m, by_tenant);
BEGIN
  IF before.count > 0 OR before.more THEN
    RETURN NEXT sluice_private.say('behind', format('It has been due for %s, and %s%s before it%s.',
      sluice_private.span_words(m.due_at),
      CASE WHEN before.more AND m.slot IS NOT NULL THEN 'more than 1,000 messages of its slot'
           WHEN before.more THEN 'more than 1,000 due messages'
           ELSE sluice_private.counted(before.count, 'due message') END
        || CASE WHEN before.more THEN '' WHEN m.slot IS NOT NULL THEN ' of its ordering key' ELSE '' END,
      CASE WHEN before.count = 1 AND NOT before.more THEN ' goes' ELSE ' go' END,
      CASE WHEN by_tenant THEN ' in the turn of its tenant' END),
      since => m.due_at, details => jsonb_build_object('count', before.count, 'more', before.more));
  END IF;
END
$$;
