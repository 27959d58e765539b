-- Reasons why something does not happen: what they are made of, and those about one message.
--
-- Each function returns its reason as one row, or none. All are STABLE and lock nothing. They run with the rights of
-- the owner, who may read what they read, under planner settings by which no plan walks a backlog: see
-- sluice_private.message_reasons. What a session does is not theirs to tell: a row has its pid, and the public function
-- adds what its caller may see of it.

CREATE TYPE sluice_private.reason AS (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text,
  -- The server process that is the reason; 0: a prepared transaction, which has none.
  pid integer
);

CREATE FUNCTION sluice_private.say(
  reason text, explanation text, since timestamptz DEFAULT NULL, until timestamptz DEFAULT NULL,
  details jsonb DEFAULT '{}', remedy text DEFAULT NULL, pid integer DEFAULT NULL
) RETURNS sluice_private.reason
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ROW(say.reason, say.explanation, say.since, say.until, jsonb_strip_nulls(say.details), say.remedy, say.pid)
    ::sluice_private.reason
$$;

-- A time by its two largest units, as the command line writes it: 3m 12s.
CREATE FUNCTION sluice_private.ms_words(ms numeric) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT regexp_replace(CASE
    WHEN s >= 86400 THEN format('%sd %sh', s / 86400, s % 86400 / 3600)
    WHEN s >= 3600 THEN format('%sh %sm', s / 3600, s % 3600 / 60)
    WHEN s >= 60 THEN format('%sm %ss', s / 60, s % 60)
    WHEN s >= 1 THEN format('%ss', s)
    WHEN s >= 0 THEN format('%sms', floor(ms)) END, ' 0[hms]$', '')
  FROM (SELECT floor(ms / 1000)::bigint AS s) whole
$$;

-- How far an instant is from now, in the same words.
CREATE FUNCTION sluice_private.span_words(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(at) THEN sluice_private.ms_words(
    abs(extract(epoch FROM at)::numeric - extract(epoch FROM clock_timestamp())::numeric) * 1000
  ) WHEN at IS NOT NULL THEN 'ever' END
$$;

-- What users wrote, in quotes and in one line.
CREATE FUNCTION sluice_private.quoted(given text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '"' || CASE WHEN length(line) > 200 THEN left(line, 200) || '...' ELSE line END || '"'
  FROM (SELECT btrim(regexp_replace(left(given, 2000), '\s+', ' ', 'g')) AS line) l
$$;

-- What users wrote, as one word of a shell.
CREATE FUNCTION sluice_private.shell_word(given text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '''' || replace(given, '''', '''"''"''') || ''''
$$;

-- '1 message', '3 messages'
CREATE FUNCTION sluice_private.counted(count bigint, what text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE count WHEN 1 THEN format('1 %s', what) ELSE format('%s %ss', count, what) END
$$;

-- Who has locked a row, by its xmax: the transactions that run, each with its server process. Read once per look.
CREATE FUNCTION sluice_private.row_locks() RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(jsonb_object_agg(l.transactionid::text, coalesce(l.pid, 0)), '{}') FROM pg_locks l
  WHERE l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock' AND l.granted
$$;

-- What the caller may see of a session. It runs with the rights of its caller: of the sessions of others PostgreSQL
-- shows a login no more than their names.
CREATE FUNCTION sluice_private.session_facts(pid integer) RETURNS jsonb
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'pid', a.pid, 'application', nullif(a.application_name, ''), 'user', a.usename, 'state', a.state,
    'stateSince', a.state_change, 'querySince', a.query_start, 'transactionSince', a.xact_start,
    'hidden', CASE WHEN a.backend_start IS NULL THEN true END
  ))
  FROM pg_stat_activity a WHERE a.pid = session_facts.pid
$$;

CREATE FUNCTION sluice_private.session_words(pid integer, facts jsonb) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN pid = 0 THEN 'It is a prepared transaction: pg_prepared_xacts lists it.'
    WHEN facts IS NULL THEN format('Server process %s has ended since.', pid)
    ELSE format('It is server process %s (%s)%s.', pid,
      concat_ws(', ', facts ->> 'application', 'user ' || (facts ->> 'user')),
      CASE WHEN facts ? 'hidden'
        THEN format(': role %s may not see what it does (pg_read_all_stats)', sluice_private.quoted(current_user))
        ELSE concat(
          ', ' || (facts ->> 'state') || ' for ' || sluice_private.span_words((facts ->> 'stateSince')::timestamptz),
          ', in a transaction for ' || sluice_private.span_words((facts ->> 'transactionSince')::timestamptz)
        ) END) END
$$;

-- The number of letters to insert, delete or change between two names; null: it is more than a typing mistake.
CREATE FUNCTION sluice_private.name_distance(given text, other text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := CASE WHEN length(other) < 4 THEN 1 ELSE greatest(2, length(other) / 3) END;
  before integer[] := ARRAY(SELECT n FROM generate_series(0, length(other)) AS n);
  line integer[];
BEGIN
  IF abs(length(given) - length(other)) > most THEN
    RETURN NULL;
  END IF;
  FOR at IN 1..length(given) LOOP
    line := ARRAY[at];
    FOR place IN 1..length(other) LOOP
      line := line || least(before[place + 1] + 1, line[place] + 1,
        before[place] + CASE WHEN substr(given, at, 1) = substr(other, place, 1) THEN 0 ELSE 1 END);
    END LOOP;
    before := line;
  END LOOP;
  RETURN CASE WHEN before[length(other) + 1] <= most THEN before[length(other) + 1] END;
END
$$;

-- The name that was most likely meant, of the first 200.
CREATE FUNCTION sluice_private.nearest_name(given text, names text[]) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT n.name FROM (
    SELECT name, sluice_private.name_distance(lower(given), lower(name)) AS distance FROM unnest(names[1:200]) AS name
  ) n
  -- A worker may write any name, and this one gets into a command.
  WHERE n.distance IS NOT NULL AND n.name <> given AND n.name ~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$'
  ORDER BY n.distance, n.name LIMIT 1
$$;

-- Names of queues that have messages, up to so many: from each to the next by one descent of the primary key.
CREATE FUNCTION sluice_private.some_queues(most integer) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH RECURSIVE found (queue) AS (
    (SELECT m.queue FROM sluice.message m ORDER BY m.queue, m.id LIMIT 1)
    UNION ALL
    SELECT n.queue FROM found f CROSS JOIN LATERAL (
      SELECT m.queue FROM sluice.message m WHERE m.queue > f.queue ORDER BY m.queue, m.id LIMIT 1
    ) n
  )
  SELECT ARRAY(SELECT f.queue FROM found f LIMIT most)
$$;

-- Open transactions that have written to sluice.message: which message one has enqueued nobody else can see. The oldest
-- five, as far as the owner of the schema may see how old they are.
CREATE FUNCTION sluice_private.why_not_committed() RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT DISTINCT l.pid, l.virtualtransaction FROM pg_locks l
    WHERE l.locktype = 'relation' AND l.relation = 'sluice.message'::regclass AND l.mode = 'RowExclusiveLock'
      AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
      AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  ) w LEFT JOIN pg_stat_activity a ON a.pid = w.pid
  CROSS JOIN LATERAL sluice_private.say('not_committed',
    'A transaction that has written to sluice.message is open. If it enqueued the message, that appears with its '
    'COMMIT.',
    pid => coalesce(w.pid, 0)) s
  ORDER BY a.xact_start, w.pid LIMIT 5
$$;

-- A standby sees neither locks nor batches.
CREATE FUNCTION sluice_private.why_not_visible() RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.say('not_visible',
    'This is a standby, which sees no locks and no batches: what is due may be in flight. Ask the primary server.') s
  WHERE pg_is_in_recovery()
$$;

CREATE FUNCTION sluice_private.why_dead(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.dead_letter d CROSS JOIN LATERAL sluice_private.say('dead',
    format('It became a dead letter %s ago: %s.', sluice_private.span_words(d.died_at), left(d.reason, 200))
      || coalesce(' Its last error: ' || sluice_private.quoted(d.error) || '.', ''),
    since => d.died_at,
    details => jsonb_build_object('attempt', d.attempt, 'diedOf', d.reason, 'error', left(d.error, 2000)),
    remedy => format('npx sluice dead redrive %s --id %s', d.queue, d.id)) s
  WHERE d.queue = why_dead.queue AND d.id = why_dead.id
$$;

CREATE FUNCTION sluice_private.why_completed(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice.completed_message c CROSS JOIN LATERAL sluice_private.say('completed',
    format('It succeeded %s ago, in attempt %s, %s.', sluice_private.span_words(c.completed_at), c.attempt, CASE
      WHEN c.worker IS NOT NULL THEN 'on worker ' || sluice_private.quoted(c.worker)
      WHEN c.claim IS NOT NULL THEN 'in claim ' || c.claim ELSE 'by a pop' END),
    since => c.completed_at,
    details => jsonb_build_object('attempt', c.attempt, 'worker', c.worker, 'claim', c.claim::text)) s
  WHERE c.queue = why_completed.queue AND c.id = why_completed.id ORDER BY c.completed_at DESC LIMIT 1
$$;

-- Of an id that is nowhere in its queue: of a message of another one, or of none.
CREATE FUNCTION sluice_private.why_gone(queue text, id bigint) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value(pg_get_serial_sequence('sluice.message', 'id')::regclass), 0);
  elsewhere text := (SELECT q.name FROM unnest(sluice_private.some_queues(100)) AS q (name) CROSS JOIN LATERAL (
    SELECT m.id FROM sluice.message m WHERE m.queue = q.name AND m.id = id LIMIT 1) m LIMIT 1);
  kept_ms bigint := (SELECT q.history_ms FROM sluice.queue q WHERE q.queue = queue);
BEGIN
  IF elsewhere IS NOT NULL THEN
    RETURN NEXT sluice_private.say('other_queue',
      format('Message %s is in queue "%s", and not in "%s".', id, elsewhere, queue),
      details => jsonb_build_object('queue', elsewhere), remedy => format('npx sluice explain %s %s', elsewhere, id));
    RETURN;
  ELSIF id > last_id THEN
    RETURN NEXT sluice_private.say('never_existed',
      format('No message has had the id %s: the highest one so far is %s.', id, last_id),
      details => jsonb_build_object('lastId', last_id::text));
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_not_committed();
  RETURN NEXT sluice_private.say('not_found',
    format('Queue "%s" has no message %s, dead or alive. It was handled, cancelled, cleared or deleted, or its enqueue '
      'was rolled back. ', queue, id) || CASE
    WHEN kept_ms IS NULL THEN 'The queue keeps no history that could tell.'
    ELSE 'Its history does not have it.' END,
    remedy => CASE WHEN kept_ms IS NULL THEN format('npx sluice queue set %s --history 7d', queue) END);
END
$$;

-- A session has locked it. Where a live worker has recorded the message, and it is as it was then, that is the worker's
-- batch. A record alone says nothing: it may be of a batch that has just ended.
CREATE FUNCTION sluice_private.why_in_transaction(m sluice.message, holder integer) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  batch record;
BEGIN
  IF holder IS NULL THEN
    RETURN;
  END IF;
  SELECT b.claimed_at, cardinality(b.message_ids) AS messages, w.name, w.host, w.pid INTO batch
  FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id AND w.alive
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND m.due_at <= b.claimed_at
    AND m.attempt <= coalesce(b.attempts[array_position(b.message_ids, m.id)], 0)
  ORDER BY b.claimed_at DESC LIMIT 1;
  IF batch.name IS NOT NULL THEN
    RETURN NEXT sluice_private.say('in_flight',
      format('Worker %s (process %s on %s) has it in a transaction for %s: attempt %s, in a batch of %s.',
        sluice_private.quoted(batch.name), batch.pid, batch.host, sluice_private.span_words(batch.claimed_at),
        m.attempt + 1, batch.messages),
      since => batch.claimed_at,
      details => jsonb_build_object('worker', batch.name, 'host', batch.host, 'workerPid', batch.pid,
        'attempt', m.attempt + 1, 'batch', batch.messages),
      remedy => format('npx sluice message cancel %s %s', m.queue, m.id), pid => holder);
  ELSE
    RETURN NEXT sluice_private.say('locked',
      'A session has locked its row, and no live worker has recorded it: claims pass it over.',
      remedy => CASE holder WHEN 0 THEN 'SELECT gid, prepared FROM pg_prepared_xacts;'
        ELSE format('SELECT pg_terminate_backend(%s);', holder) END, pid => holder);
  END IF;
END
$$;

-- A worker that is gone has recorded that it had the message.
CREATE FUNCTION sluice_private.why_worker_gone(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM sluice_private.batch_records() b JOIN sluice.workers w ON w.id = b.worker_id
  CROSS JOIN LATERAL sluice_private.say('worker_gone',
    format('Worker %s, which had it, is gone: it was last seen %s ago. The next look of a live worker counts that.',
      sluice_private.quoted(w.name), sluice_private.span_words(w.seen_at)),
    since => w.seen_at, details => jsonb_build_object('worker', w.name)) s
  WHERE NOT b.leased AND b.queue = m.queue AND m.id = ANY (b.message_ids) AND NOT w.alive LIMIT 1
$$;

-- It is in flight, and a cancel has been asked for. Requests are kept for an hour, so there are few.
CREATE FUNCTION sluice_private.why_cancel_asked(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT s.* FROM (
    SELECT r.message_id, r.asked_at FROM sluice.cancel_request r WHERE r.queue = m.queue
    ORDER BY r.queue DESC, r.id DESC LIMIT 1000
  ) r CROSS JOIN LATERAL sluice_private.say('cancel_asked',
    format('A cancel was asked for %s ago: it is removed when its handler has ended.',
      sluice_private.span_words(r.asked_at)),
    since => r.asked_at) s
  WHERE r.message_id = m.id ORDER BY r.asked_at DESC LIMIT 1
$$;

-- A worker or a claim has it under a lease that has not ended.
CREATE FUNCTION sluice_private.why_leased(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  owner record;
  left_words text := sluice_private.span_words(m.due_at);
BEGIN
  IF m.lease < 0 THEN
    SELECT c.claimed_at, cardinality(c.message_ids) AS messages INTO owner FROM sluice.claim c
    WHERE c.queue = m.queue AND c.id = -m.lease;
    RETURN NEXT sluice_private.say('claimed',
      format('Claim %s has it for another %s: attempt %s, with %s in the claim.', -m.lease, left_words, m.attempt + 1,
        sluice_private.counted(coalesce(owner.messages, 1), 'message')),
      since => owner.claimed_at, until => m.due_at,
      details => jsonb_build_object('claim', (-m.lease)::text, 'attempt', m.attempt + 1),
      remedy => format('npx sluice claims release %s %s', m.queue, -m.lease));
    RETURN;
  END IF;
  SELECT w.name, w.host, w.pid, w.alive, w.seen_at,
         (SELECT b.claimed_at FROM sluice_private.batch_records() b
          WHERE b.worker_id = w.id AND b.id = (m.lease & 4294967295)) AS claimed_at
  INTO owner FROM sluice.workers w WHERE w.id = (m.lease >> 32)::integer;
  RETURN NEXT sluice_private.say('leased', CASE WHEN owner.alive
    THEN format('Worker %s (process %s on %s) has it under a lease for another %s: attempt %s.',
      sluice_private.quoted(owner.name), owner.pid, owner.host, left_words, m.attempt + 1)
    ELSE format('Worker %s is gone. Its lease lasts for another %s; then the message is tried again.',
      coalesce(sluice_private.quoted(owner.name), (m.lease >> 32)::text), left_words) END,
    since => owner.claimed_at, until => m.due_at,
    details => jsonb_build_object('worker', owner.name, 'host', owner.host, 'workerPid', owner.pid,
      'workerAlive', coalesce(owner.alive, false), 'attempt', m.attempt + 1),
    -- Else its lease gives it back, and a cancel would remove it.
    remedy => CASE WHEN owner.alive THEN format('npx sluice message cancel %s %s', m.queue, m.id) END);
END
$$;

CREATE FUNCTION sluice_private.why_expired(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  IF m.expires_at <= clock_timestamp() THEN
    RETURN NEXT sluice_private.say('expired',
      format('Its time to live ended %s ago. The next claim or pass of maintenance %s.',
        sluice_private.span_words(m.expires_at), CASE (SELECT q.on_expiry FROM sluice.queue q WHERE q.queue = m.queue)
          WHEN 'dead_letter' THEN 'makes it a dead letter' ELSE 'removes it' END),
      since => m.expires_at, remedy => 'npx sluice maintain');
  END IF;
END
$$;

-- It is not due yet.
CREATE FUNCTION sluice_private.why_later(m sluice.message) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := coalesce(m.max_attempts, (SELECT q.max_attempts FROM sluice.queue q WHERE q.queue = m.queue));
  remedy text := format('npx sluice message run-now %s %s', m.queue, m.id);
  left_words text := sluice_private.span_words(m.due_at);
BEGIN
  IF m.due_at <= clock_timestamp() THEN
    RETURN;
  ELSIF m.attempt > 0 THEN
    RETURN NEXT sluice_private.say('retrying',
      format('Attempt %s failed %s ago: %s. It is tried again in %s.',
        concat(m.attempt, ' of ' || most), sluice_private.span_words(m.failed_at),
        coalesce(sluice_private.quoted(m.last_error), 'without an error'), left_words),
      since => m.failed_at, until => m.due_at, remedy => remedy,
      details => jsonb_build_object('attempt', m.attempt, 'maxAttempts', most, 'error', left(m.last_error, 2000)));
  ELSE
    RETURN NEXT sluice_private.say('scheduled', format('%s due in %s.', CASE WHEN m.lease IS NULL
      THEN 'It has not been tried, and is' ELSE 'It was in flight and put off, and is' END, left_words),
      since => m.enqueued_at, until => m.due_at, remedy => remedy);
  END IF;
END
$$;

-- Its process died with it, or hung, or its transaction was lost.
CREATE FUNCTION sluice_private.why_evidence(queue text, message_id bigint, attempt integer)
RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  seen record;
BEGIN
  SELECT count(*) AS count, max(c.crashed_at) AS last_at, (array_agg(c.worker ORDER BY c.crashed_at DESC))[1] AS worker,
         (array_agg(c.kind ORDER BY c.crashed_at DESC))[1] AS kind, bool_or(c.alone) AS alone
  INTO seen FROM (
    SELECT * FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id LIMIT 1000
  ) c;
  IF seen.count > 0 THEN
    RETURN NEXT sluice_private.say('crash_evidence',
      format('%s left unsettled: %s ago %s. %s failed so far%s.',
      sluice_private.counted(seen.count, 'attempt') || CASE seen.count WHEN 1 THEN ' was' ELSE ' were' END,
      sluice_private.span_words(seen.last_at),
      format(CASE seen.kind WHEN 'vanished' THEN 'worker %s vanished' WHEN 'hung' THEN 'worker %s hung'
        ELSE 'a transaction of worker %s was lost' END, sluice_private.quoted(seen.worker)),
      sluice_private.counted(sluice_private.failed_tries(queue, message_id, attempt), 'attempt')
        || CASE sluice_private.failed_tries(queue, message_id, attempt) WHEN 1 THEN ' has' ELSE ' have' END,
      CASE WHEN seen.alone THEN '; it was alone in flight, so it is the reason' ELSE '; it runs alone next' END),
      since => seen.last_at,
      details => jsonb_build_object('count', seen.count, 'worker', seen.worker, 'kind', seen.kind,
        'alone', seen.alone));
  END IF;
END
$$;
