-- Checks and small functions that the others share.
--
-- Each statement in plpgsql has a snapshot of its own, so the statement after a lock sees all that was committed before
-- the lock was granted.

-- The time of a view, in a subselect without a parameter: read once per statement, so that all rows are as of one
-- instant. A view with clock_timestamp() itself is computed in full before a LIMIT, because that is volatile;
-- statement_timestamp() does not move while a function enqueues and then looks.
CREATE FUNCTION sluice_private.clock() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS 'SELECT pg_catalog.clock_timestamp()';

-- Fails in a transaction with one snapshot for all of its statements: the statement after a lock would not see what was
-- committed while it waited.
CREATE FUNCTION sluice_private.check_isolation() RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
    RAISE EXCEPTION 'transaction: expected the isolation level read committed, received %',
      current_setting('transaction_isolation')
      USING ERRCODE = '25001', HINT = 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED.';
  END IF;
END
$$;

-- Fails unless an integer is from 1 to the highest.
CREATE FUNCTION sluice_private.check_integer(what text, given integer, highest integer, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF given IS NULL OR given NOT BETWEEN 1 AND highest THEN
    RAISE EXCEPTION '%: expected an integer from 1 to %, received %', what, highest, coalesce(given::text, 'NULL')
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails unless what is asked of a claim is within its bounds.
CREATE FUNCTION sluice_private.check_claim(
  queue text, most integer DEFAULT 1, lease interval DEFAULT '1 minute', max_attempts integer DEFAULT 1,
  grace interval DEFAULT '0'
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF queue IS NULL OR octet_length(queue) > 100 OR queue !~ '^[A-Za-z0-9_][A-Za-z0-9_.:-]*$' THEN
    RAISE EXCEPTION 'queue: expected a name of 1 to 100 letters, digits and _ . : - (none of . : - first), received %',
      quote_nullable(left(queue, 120))
      USING ERRCODE = '22023', HINT = 'For example ''emails''.';
  END IF;
  PERFORM sluice_private.check_integer('limit', most, 1000, 'For example 10. Claim several times for more than 1000.');
  IF lease IS NULL OR lease NOT BETWEEN interval '1 second' AND interval '14 days' THEN
    RAISE EXCEPTION 'lease: expected from 1 second to 14 days, received %', coalesce(lease::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For example interval ''1 minute''. A claim that needs more time is renewed.';
  END IF;
  IF grace IS NULL OR grace NOT BETWEEN interval '0' AND interval '14 days' THEN
    RAISE EXCEPTION 'grace: expected from zero to 14 days, received %', coalesce(grace::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'For how long the messages live on after the claim. Leave it out for zero.';
  END IF;
  PERFORM sluice_private.check_integer('max_attempts', max_attempts, 1000000, 'Leave it out for 20.');
END
$$;

-- The same time in seconds alone. A month is 30 days where intervals are compared, and as long as it is where one is added
-- to an instant, so '24 months -706 days' would pass for less than 14 days and last for 25. An infinite one, which there is
-- from PostgreSQL 17 on, stays as it is: the check that follows names it.
CREATE FUNCTION sluice_private.in_seconds(given interval) RETURNS interval
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(given) THEN make_interval(secs => extract(epoch FROM given)::double precision) ELSE given END
$$;

-- Fails unless a time is within its bounds, by its seconds: intervals are compared as if a month had 30 days, by which a
-- hundred years would be shorter than in milliseconds.
CREATE FUNCTION sluice_private.check_time(
  what text, given interval, hint text, shortest text DEFAULT 'zero', longest text DEFAULT '100 years'
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF extract(epoch FROM given) NOT BETWEEN extract(epoch FROM coalesce(nullif(shortest, 'zero'), '0')::interval)
                                       AND extract(epoch FROM longest::interval) THEN
    RAISE EXCEPTION '%: expected from % to %, received %', what, shortest, longest, given
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails unless an instant is in the years that a Date of JavaScript and ISO 8601 write alike.
CREATE FUNCTION sluice_private.check_due_at(due_at timestamptz, hint text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF due_at < '0001-01-01 00:00Z' OR due_at >= '10000-01-01 00:00Z' THEN
    RAISE EXCEPTION 'due_at: expected an instant in the years 1 to 9999, received %', due_at
      USING ERRCODE = '22023', HINT = hint;
  END IF;
END
$$;

-- Fails if a payload, or headers, are larger than any queue takes.
CREATE FUNCTION sluice_private.check_bytes(what text, content jsonb) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF octet_length(content::text) > 1048576 THEN
    RAISE EXCEPTION '%: expected at most 1048576 bytes of JSON, received %', what, octet_length(content::text)
      USING ERRCODE = '22023', HINT = 'Store large content elsewhere and enqueue a reference to it.';
  END IF;
END
$$;

-- Fails unless a type is dot-separated text without spaces, also those of Unicode, and without control characters and *.
-- What is empty or too long breaks a constraint. By numbers, because a class such as [:cntrl:] holds letters of some
-- encodings in the locale C; and in other encodings than UTF8 the numbers above 127 are other characters.
CREATE FUNCTION sluice_private.check_type(type text) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wrong text := CASE getdatabaseencoding()
    WHEN 'UTF8' THEN E'\\x01-\\x20\\x7f-\\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000\\ufeff*'
      ELSE E'\\x01-\\x20\\x7f*' END;
BEGIN
  IF type <> '' AND type !~ ('^[^.' || wrong || ']+([.][^.' || wrong || ']+)*$') THEN
    RAISE EXCEPTION 'type: expected dot-separated text without spaces and *, received %', quote_literal(left(type, 80))
      USING ERRCODE = '22023', HINT = 'For example ''order.paid''.';
  END IF;
END
$$;

-- How many rows one step of maintenance may take.
CREATE FUNCTION sluice_private.check_most(most integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  PERFORM sluice_private.check_integer('most', most, 10000,
    'Leave it out for 1000. Call it again while it returns as many.');
END
$$;

-- Called by a statement that settles a batch when it has touched fewer rows than it should: the error turns the COMMIT
-- behind it into a rollback, and with it go the effects of handlers that would happen again. A message that is no longer
-- there was removed by its own handler, through tx; no other session could, because it is locked. Volatile, so it sees
-- what the calling statement has done so far.
CREATE FUNCTION sluice_private.require_settled(relation text, queue text, wanted bigint[], touched bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  untouched bigint[] := ARRAY(SELECT w FROM unnest(wanted) w WHERE w <> ALL (touched));
BEGIN
  IF relation = 'message' THEN
    untouched := ARRAY(SELECT m.id FROM sluice.message m WHERE m.queue = queue AND m.id = ANY (untouched));
  END IF;
  IF cardinality(untouched) > 0 THEN
    RAISE EXCEPTION 'sluice.%: expected to settle % row(s) of queue "%", left % as they were; the first has the number %',
      relation, cardinality(wanted), queue, cardinality(untouched), untouched[1] USING ERRCODE = 'SL001';
  END IF;
END
$$;

-- The same for a table that the settling role may write and not read: its rows can only be counted.
CREATE FUNCTION sluice_private.require_kept(relation text, queue text, wanted bigint, taken bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF taken < wanted THEN
    RAISE EXCEPTION 'sluice.%: expected to take % row(s) for % "%", took %', relation, wanted,
      CASE relation WHEN 'event' THEN 'stream' ELSE 'queue' END, queue, taken
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
END
$$;

-- Fails if a table has not taken a row so often that no other session can be the reason.
CREATE FUNCTION sluice_private.check_taken(relation text, queue text, tries integer) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF tries >= 1000 THEN
    RAISE EXCEPTION 'sluice.%: expected to take 1 row for queue "%", took 0', relation, queue
      USING ERRCODE = 'SL001', HINT = 'Look for a trigger that returns NULL, and for a rule.';
  END IF;
END
$$;

-- What failed, when and where: the last four failures of a message, and one more. Only the latest keeps its stack, so that a
-- row stays small. details: {"worker", "stack"}, as far as they are known. No error: nothing has failed.
CREATE FUNCTION sluice_private.add_failure(failures jsonb, attempt integer, error text, details jsonb, failed_at timestamptz)
RETURNS jsonb
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF error IS NULL THEN
    RETURN failures;
  END IF;
  RETURN coalesce((
    SELECT jsonb_agg(f.failure - 'stack' ORDER BY f.ordinal)
    FROM jsonb_array_elements(failures) WITH ORDINALITY AS f (failure, ordinal)
    WHERE f.ordinal > jsonb_array_length(failures) - 4
  ), '[]') || jsonb_build_array(
    jsonb_build_object('attempt', attempt, 'at', failed_at, 'error', error) || coalesce(details, '{}')
  );
END
$$;

-- Which of these characters, given and returned as Unicode numbers with commas between them, the database's encoding
-- cannot hold. To send one would fail its statement, and with it the transaction of the producer. chr(92) is a backslash:
-- a literal would have to be written in one way or the other, as standard_conforming_strings says.
CREATE FUNCTION sluice_private.foreign_characters(numbers text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  number integer;
  found_foreign text[] := '{}';
BEGIN
  FOREACH number IN ARRAY string_to_array(numbers, ',')::integer[] LOOP
    BEGIN
      PERFORM unistr(chr(92) || '+' || lpad(to_hex(number), 6, '0'));
    EXCEPTION WHEN untranslatable_character OR feature_not_supported THEN
      found_foreign := found_foreign || number::text;
    END;
  END LOOP;
  RETURN array_to_string(found_foreign, ',');
END
$$;

-- The partition of an ordering key: its low bits are those of the slot in a queue.
CREATE FUNCTION sluice_private.event_partition(ordering_key text, partitions smallint) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (pg_catalog.hashtextextended(ordering_key COLLATE pg_catalog."C", 0)
          OPERATOR(pg_catalog.&) (partitions OPERATOR(pg_catalog.-) 1)::bigint)::smallint
$$;

-- The full number of a transaction from its last 32 bits, which a row has: the nearest to those that the snapshot knows.
CREATE FUNCTION sluice_private.full_xid(last_bits text) RETURNS xid8
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  near bigint := pg_snapshot_xmax(pg_current_snapshot())::text;
BEGIN
  RETURN greatest(near + (last_bits::bigint - (near & 4294967295) + 6442450944) % 4294967296 - 2147483648, 3)::text;
END
$$;

-- Whether the xmax of a row is the number of a running transaction, or of a savepoint of one, which no snapshot lists. If
-- so, that transaction has locked the row, as far as a look without a lock can say: it may have ended since. xmax may
-- also be the number of a MultiXact, where several have locked the row, or one has locked and changed it. That looks the
-- same, may be ahead of all transactions, and counts as no lock.
CREATE FUNCTION sluice_private.in_progress(holder xid) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  full_number xid8;
BEGIN
  IF holder IS NULL OR holder = '0'::xid THEN
    RETURN false;
  END IF;
  full_number := sluice_private.full_xid(holder::text);
  IF full_number < pg_snapshot_xmax(pg_current_snapshot()) THEN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  END IF;
  -- It has begun since the snapshot, or there is no such transaction yet.
  BEGIN
    RETURN coalesce(pg_xact_status(full_number) = 'in progress', false);
  EXCEPTION WHEN invalid_parameter_value THEN
    RETURN false;
  END;
END
$$;
