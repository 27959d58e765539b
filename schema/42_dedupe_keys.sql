-- Frees dedupe keys, gives them back to redriven messages, and removes those that are free.
--
-- Public functions: sluice.free_key, sluice.free_keys, sluice.prune_dedupe.

-- Whether a message has a key: one that has expired has it as long as it is in flight. To know that, it is locked.
CREATE FUNCTION sluice_private.has_message(pointer sluice.dedupe) RETURNS boolean
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now_at timestamptz := clock_timestamp();
  there sluice.message;
BEGIN
  FOR there IN
    SELECT m.* FROM sluice.message m WHERE m.queue = pointer.queue AND m.id IN (pointer.message_id, pointer.running_id)
  LOOP
    IF coalesce(there.expires_at > now_at, true) OR there.lease <> 0 AND there.due_at > now_at THEN
      RETURN true;
    END IF;
    PERFORM FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = there.queue AND m.id = there.id) THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;

-- Frees a key that is kept although no message has it: after success, or of onDuplicate throttle. It locks the pointer, as a
-- producer of the key does, so that one that is about to take the key is seen.
CREATE FUNCTION sluice_private.free_one(queue text, dedupe_key text) RETURNS text
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  pointer sluice.dedupe;
  now_at timestamptz;
  freed boolean;
BEGIN
  SELECT d.* INTO pointer FROM sluice.dedupe d WHERE d.queue = queue AND d.key = dedupe_key FOR UPDATE;
  now_at := clock_timestamp();
  IF sluice_private.has_message(pointer) THEN
    RETURN 'taken';
  END IF;
  freed := coalesce(pointer.until > now_at, false);
  UPDATE sluice.dedupe d SET until = NULL WHERE freed AND d.queue = queue AND d.key = dedupe_key;
  DELETE FROM sluice.kept_key s WHERE s.queue = queue AND s.key = dedupe_key AND s.until > now_at;
  RETURN CASE WHEN FOUND OR freed THEN 'freed' ELSE 'free' END;
END
$$;

CREATE FUNCTION sluice.free_key(queue text, dedupe_key text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on AS $$
DECLARE
  answer text;
BEGIN
  IF queue IS NULL OR dedupe_key IS NULL THEN
    RAISE EXCEPTION 'queue, dedupe_key: expected text, received NULL'
      USING ERRCODE = '22023', HINT = 'As in sluice.free_key(''emails'', ''invoice 17'').';
  END IF;
  answer := sluice_private.free_one(queue, dedupe_key);
  IF answer = 'freed' THEN
    PERFORM sluice_private.note_action('key.free', queue, 1, dedupe_key);
  END IF;
  RETURN answer;
END
$$;
COMMENT ON FUNCTION sluice.free_key IS
  'Frees a dedupe key that is kept after its message has gone. Returns freed, free (it was not taken) or taken (a '
  'message has it; sluice.cancel removes the message).';

-- Frees the keys of a queue that are kept although no message has them, behind after_key in their order: at most 1,000,
-- and it looks at 10,000 at most. A key that a producer asks for at this moment stays. dry_run: counts them. next_key:
-- where the next step begins; null: it was the last. A key without a pointer is free.
CREATE FUNCTION sluice.free_keys(queue text, after_key text DEFAULT NULL, dry_run boolean DEFAULT false)
RETURNS TABLE (keys integer, next_key text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_sort = off SET enable_seqscan = off
  SET enable_indexscan = on AS $$
#variable_conflict use_variable
DECLARE
  now_at timestamptz := clock_timestamp();
  pointer sluice.dedupe;
  looked integer := 0;
BEGIN
  PERFORM sluice_private.check_claim(queue);
  keys := 0;
  FOR pointer IN
    SELECT d.* FROM sluice.dedupe d WHERE d.queue = queue AND d.key > coalesce(after_key, '') ORDER BY d.key LIMIT 10000
  LOOP
    looked := looked + 1;
    next_key := pointer.key;
    CONTINUE WHEN coalesce(pointer.until <= now_at, true)
        AND NOT EXISTS (SELECT FROM sluice.kept_key s WHERE s.queue = queue AND s.key = pointer.key AND s.until > now_at)
      OR sluice_private.has_message(pointer);
    IF NOT dry_run THEN
      PERFORM FROM sluice.dedupe d WHERE d.queue = queue AND d.key = pointer.key FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND OR sluice_private.free_one(queue, pointer.key) <> 'freed';
    END IF;
    keys := keys + 1;
    EXIT WHEN keys >= 1000;
  END LOOP;
  IF NOT dry_run THEN
    PERFORM sluice_private.note_action('key.free_all', queue, keys, continues => after_key IS NOT NULL);
  END IF;
  IF looked < 10000 AND keys < 1000 THEN
    next_key := NULL;
  END IF;
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION sluice.free_keys IS
  'Frees the dedupe keys of a queue that are kept after their messages have gone. Each call is one bounded step, from '
  'after_key on: call it again with next_key until that is NULL. dry_run only counts them.';

-- Gives messages that were redriven their dedupe keys again, where no other message has one by then; of several with the
-- same key the newest. It does not wait for a producer: one that has locked a pointer, or has made one and not committed,
-- has the key.
CREATE FUNCTION sluice_private.take_keys_again(queue text, ids bigint[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '10ms' AS $$
#variable_conflict use_variable
DECLARE
  redriven record;
  pointer sluice.dedupe;
BEGIN
  FOR redriven IN
    SELECT m.id, m.dedupe_key FROM sluice_private.rows_of(queue, ids) m ORDER BY m.id DESC
  LOOP
    SELECT d.* INTO pointer FROM sluice.dedupe d
    WHERE d.queue = queue AND d.key = redriven.dedupe_key FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE sluice.dedupe d SET message_id = redriven.id, running_id = NULL
      WHERE d.queue = queue AND d.key = redriven.dedupe_key AND NOT EXISTS (
        SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (pointer.message_id, pointer.running_id)
      );
    ELSE
      BEGIN
        INSERT INTO sluice.dedupe (queue, key, message_id)
        VALUES (queue, redriven.dedupe_key, redriven.id) ON CONFLICT DO NOTHING;
      EXCEPTION WHEN lock_not_available THEN
        NULL;
      END;
    END IF;
  END LOOP;
END
$$;

-- Whether nothing needs a pointer any more: neither of its messages is there or dead, and no window of the key has a row.
CREATE FUNCTION sluice_private.is_free(queue text, key text, message_id bigint, running_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN NOT EXISTS (SELECT FROM sluice.message m WHERE m.queue = queue AND m.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.dead_letter d WHERE d.queue = queue AND d.id IN (message_id, running_id))
    AND NOT EXISTS (SELECT FROM sluice.kept_key s WHERE s.queue = queue AND s.key = key);
END
$$;

-- Deletes windows that are over and pointers of keys that are free, at most so many, and returns how many. It begins at a
-- page drawn by chance, reads no more than 100 pages of each table, and skips what a producer has locked. A small table is
-- read as a whole; in a large one each call reads another part, so no index pays for pruning.
CREATE FUNCTION sluice.prune_dedupe(most integer DEFAULT 1000) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off
SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_indexscan = on
SET enable_tidscan = on AS $$
#variable_conflict use_variable
DECLARE
  pruned integer := 0;
  ctids tid[];
  touched integer;
  now_at timestamptz;
  pages bigint;
  start bigint;
  page bigint;
BEGIN
  PERFORM sluice_private.check_most(most);
  pages := pg_relation_size('sluice.kept_key') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    ctids := ARRAY(
      SELECT s.ctid FROM sluice.kept_key s
      WHERE s.ctid >= format('(%s,0)', page)::tid AND s.ctid < format('(%s,0)', page + 1)::tid AND s.until <= now_at
      LIMIT most - pruned FOR UPDATE OF s SKIP LOCKED
    );
    IF ctids <> '{}' THEN
      DELETE FROM sluice.kept_key s WHERE s.ctid = ANY (ctids);
      pruned := pruned + cardinality(ctids);
    END IF;
  END LOOP;
  pages := pg_relation_size('sluice.dedupe') / current_setting('block_size')::integer;
  start := floor(random() * pages);
  FOR step IN 0..least(pages, 100) - 1 LOOP
    EXIT WHEN pruned >= most;
    page := (start + step) % pages;
    now_at := clock_timestamp();
    ctids := ARRAY(
      SELECT d.ctid FROM sluice.dedupe d
      WHERE d.ctid >= format('(%s,0)', page)::tid AND d.ctid < format('(%s,0)', page + 1)::tid
        AND coalesce(d.until <= now_at, true) AND sluice_private.is_free(d.queue, d.key, d.message_id, d.running_id)
      LIMIT most - pruned FOR UPDATE OF d SKIP LOCKED
    );
    IF ctids <> '{}' THEN
      -- Once more with the rows locked: until then a producer may have moved one.
      DELETE FROM sluice.dedupe d WHERE d.ctid = ANY (ctids) AND coalesce(d.until <= now_at, true)
        AND sluice_private.is_free(d.queue, d.key, d.message_id, d.running_id);
      GET DIAGNOSTICS touched = ROW_COUNT;
      pruned := pruned + touched;
    END IF;
  END LOOP;
  RETURN pruned;
END
$$;
COMMENT ON FUNCTION sluice.prune_dedupe IS
  'Deletes up to most dedupe keys that are free and windows that have ended, and returns how many. It waits for no lock.';
