-- Evidence about messages: whose process died or hung with them, or lost their transaction.

-- How many tries of a message have failed: those that its row has, and those that the evidence about it shows. crash_pkey
-- is nearly always empty.
CREATE FUNCTION sluice_private.failed_tries(queue text, message_id bigint, attempt integer) RETURNS integer
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT least(greatest(attempt + count(*) FILTER (WHERE c.kind <> 'lost'), max(c.attempt)), 2147483646)
    FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id
  );
END
$$;

-- Whether the next death of a process with the message may be its last, so that it runs alone: two have died or hung, as
-- with crashLimit 3, the default. No table says what limit a process has.
CREATE FUNCTION sluice_private.runs_alone(queue text, message_id bigint) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT count(*) >= 2 FROM sluice.crash c WHERE c.queue = queue AND c.message_id = message_id AND c.kind <> 'lost'
  );
END
$$;

-- Writes evidence about one message. A statement that has the same already is harmless.
CREATE FUNCTION sluice_private.record_crash(
  queue text, message_id bigint, worker_id integer, batch_id bigint, kind text, worker text, alone boolean,
  attempt integer DEFAULT NULL, error text DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone, attempt, error)
  VALUES (queue, message_id, worker_id, batch_id, kind, worker, alone, attempt, error)
  ON CONFLICT DO NOTHING;
END
$$;

-- Whether the only batch that a worker has recorded holds one message. STABLE, so that a leased claim does not see the batch
-- that it records itself.
CREATE FUNCTION sluice_private.has_one_message(worker_id integer) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
BEGIN
  RETURN (
    SELECT coalesce(min(cardinality(b.message_ids)) = 1 AND count(*) = 1, false) FROM sluice.batch_record b
    WHERE b.worker_id = worker_id
  );
END
$$;

-- A worker's lease that ran out is evidence, as the death of a process is: nothing has said why, and a message that hangs
-- its process would otherwise be tried for ever.
CREATE FUNCTION sluice_private.record_hung(queue text, message_id bigint, lease bigint, alone boolean) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  worker_number integer := lease >> 32;
BEGIN
  PERFORM sluice_private.record_crash(
    queue, message_id, worker_number, lease & 4294967295, 'hung',
    coalesce((SELECT w.name FROM sluice.worker w WHERE w.id = worker_number), 'unknown'), alone
  );
END
$$;
