-- Reasons why it is not the turn of a due message: limits, and what goes before it.

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
  most integer := sluice_private.most_in_flight(queue, tenant);
  endpoint text := (SELECT e.name FROM sluice.endpoint e WHERE e.queue = queue AND e.name = tenant AND e.concurrency IS NOT NULL);
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
      remedy => CASE tenant WHEN '' THEN format('npx sluice queue set %s --concurrency %s', queue, least(most * 2, 10000))
        ELSE sluice_private.raise_limit(queue, endpoint, most) END);
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
        sluice_private.counted(flow.rate, 'message'), sluice_private.duration_words(flow.ms),
        sluice_private.duration_words_to(next_at)),
      until => next_at,
      details => jsonb_build_object('rate', flow.rate, 'rateMs', flow.ms, 'tenant', nullif(tenant, '')),
      remedy => format('npx sluice queue set %s --%srate %s/%sms', queue,
        CASE tenant WHEN '' THEN '' ELSE 'tenant-' END, flow.rate * 2, flow.ms));
  END IF;
END
$$;

-- The endpoint of a webhook gets nothing now: claims pass over its messages.
CREATE FUNCTION sluice_private.why_endpoint(queue text, endpoint text) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.endpoint e CROSS JOIN LATERAL sluice_private.say('endpoint_disabled',
    format('Endpoint %s was disabled %s ago%s%s.', sluice_private.quoted(e.name),
      sluice_private.duration_words_to(e.disabled_at), coalesce(' by ' || sluice_private.quoted(e.disabled_by), ''),
      coalesce(': ' || sluice_private.quoted(e.disabled_reason), '')),
    since => e.disabled_at,
    details => jsonb_build_object('tenant', e.name, 'disabledBy', e.disabled_by, 'disabledReason', e.disabled_reason),
    remedy => format('SELECT sluice.endpoint_enable(%L, %L);', e.queue, e.name)) s
  WHERE e.queue = why_endpoint.queue AND e.name = why_endpoint.endpoint AND e.state = 'disabled'
  UNION ALL
  SELECT s.* FROM sluice.endpoint e CROSS JOIN LATERAL sluice_private.say('endpoint_closed',
    format('Endpoint %s asked for no requests by Retry-After: the next one goes in %s.', sluice_private.quoted(e.name),
      sluice_private.duration_words_to(e.closed_until)),
    until => e.closed_until, details => jsonb_build_object('tenant', e.name),
    remedy => format('SELECT sluice.endpoint_enable(%L, %L);', e.queue, e.name)) s
  WHERE e.queue = why_endpoint.queue AND e.name = why_endpoint.endpoint AND e.state = 'enabled'
    AND e.closed_until > clock_timestamp()
$$;

-- Whether no session has locked a row. A call for each of 1,001 rows: only a row with a mark is looked up.
CREATE FUNCTION sluice_private.is_unlocked(mark xid, locks jsonb) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN mark OPERATOR(pg_catalog.=) '0'::pg_catalog.xid THEN true
    ELSE sluice_private.locker(mark, locks) IS NULL END
$$;

-- How many due messages wait before one that is due, of the 1,001 next to it in the order of claims: those that a session
-- has locked are in flight, or another reason. Without a key: those of lower priority numbers, and those of its own that
-- were due before it, by message_due_idx; in a queue that shares out among tenants, those of its tenant, by
-- message_tenant_idx. With a key: those of its key among the first 1,001 of its slot before it.
CREATE FUNCTION sluice_private.count_before(
  m sluice.message, by_tenant boolean, locks jsonb, OUT count bigint, OUT more boolean
)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
BEGIN
  IF m.slot IS NOT NULL THEN
    SELECT count(*) FILTER (WHERE e.ordering_key = m.ordering_key AND e.due_at <= now_at AND sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000
    INTO count, more FROM (
      SELECT e.ordering_key, e.due_at, e.xmax FROM sluice.message e
      WHERE e.queue = m.queue AND e.slot IS NOT NULL AND e.slot >= m.slot AND e.slot <= m.slot AND e.id < m.id
      ORDER BY e.slot, e.id LIMIT 1001
    ) e;
  ELSIF by_tenant THEN
    SELECT count(*) FILTER (WHERE sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000 INTO count, more FROM (
      SELECT e.xmax FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id, e.xmax FROM sluice.message e
        WHERE e.queue = m.queue AND e.tenant IS NOT NULL AND e.tenant = m.tenant AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  ELSE
    SELECT count(*) FILTER (WHERE sluice_private.is_unlocked(e.xmax, locks)), count(*) > 1000 INTO count, more FROM (
      SELECT e.xmax FROM generate_series(0, m.priority) AS p (priority) CROSS JOIN LATERAL (
        SELECT e.id, e.xmax FROM sluice.message e
        WHERE e.queue = m.queue AND e.slot IS NULL AND e.priority = p.priority
          AND (e.due_at, e.id) < (CASE WHEN p.priority < m.priority THEN now_at ELSE m.due_at END, m.id)
        ORDER BY e.due_at, e.id LIMIT 1001
      ) e LIMIT 1001
    ) e;
  END IF;
END
$$;

-- It is due: how many wait before it, or none.
CREATE FUNCTION sluice_private.why_behind(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  by_tenant boolean := m.tenant IS NOT NULL AND EXISTS (SELECT FROM sluice.queue q
    WHERE q.queue = m.queue AND (q.tenant_concurrency IS NOT NULL OR q.tenant_rate IS NOT NULL));
  before record := sluice_private.count_before(m, by_tenant, locks);
BEGIN
  IF before.count > 0 OR before.more THEN
    RETURN NEXT sluice_private.say('behind', format('It has been due for %s, and %s%s before it%s.',
      sluice_private.duration_words_to(m.due_at),
      CASE WHEN before.more AND m.slot IS NOT NULL THEN 'more than 1,000 messages of its slot'
           WHEN before.more THEN 'more than 1,000 due messages'
           ELSE sluice_private.counted(before.count, 'due message') END
        || CASE WHEN before.more THEN '' WHEN m.slot IS NOT NULL THEN ' of its ordering key' ELSE '' END,
      CASE WHEN before.more THEN ' go' WHEN before.count = 1 THEN ' waits' ELSE ' wait' END,
      CASE WHEN by_tenant THEN ' in the turn of its tenant' END),
      since => m.due_at, details => jsonb_build_object('count', before.count, 'more', before.more));
  END IF;
END
$$;

-- Nothing is in its way: when a claim takes it, or who could have.
CREATE FUNCTION sluice_private.why_due_now(m sluice.message, locks jsonb) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.takers_of(m.queue, m.due_at, 'it', locks) t
  CROSS JOIN LATERAL sluice_private.say('due_now',
    format('It has been due for %s, and nothing is in its way: %s', sluice_private.duration_words_to(m.due_at), t.words),
    since => m.due_at, details => t.details, remedy => t.remedy) s
$$;
