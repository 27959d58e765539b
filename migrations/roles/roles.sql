-- Roles with the least that each task needs, and their grants in this database. Not a migration: roles belong to the
-- cluster, whose databases share them, and making one takes CREATEROLE. Run it as the owner of schema "sluice", again
-- after every migration and as often as you like: it leaves these five with what is written here, and PUBLIC with nothing.
--
-- One statement, so that no moment and no failure leaves half of it, whichever tool runs it. What is not a grant names
-- everything in full, because it runs under the search_path of whoever runs it.
DO $roles$
DECLARE
  role pg_catalog.text;
BEGIN
  IF NOT (SELECT pg_catalog.pg_has_role(n.nspowner, 'USAGE') FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'sluice') THEN
    -- Otherwise a GRANT that does nothing would only warn.
    RAISE EXCEPTION 'Roles: expected to be run by the owner of schema "sluice", received %', current_user
      USING ERRCODE = '42501';
  END IF;

  -- With no migration, and no other run of this in the database, beside it: two that grant at once disturb each other.
  PERFORM pg_catalog.pg_advisory_xact_lock(746500, 0);

  FOREACH role IN ARRAY ARRAY['sluice_producer', 'sluice_worker', 'sluice_operator', 'sluice_reader', 'sluice_claimer'] LOOP
    CONTINUE WHEN pg_catalog.to_regrole(role) IS NOT NULL;
    BEGIN
      EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- made by another database of the cluster at this moment
    END;
  END LOOP;

  REVOKE ALL ON SCHEMA sluice FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL TABLES IN SCHEMA sluice
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL SEQUENCES IN SCHEMA sluice
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL ROUTINES IN SCHEMA sluice
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;

  GRANT USAGE ON SCHEMA sluice TO sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;
  GRANT EXECUTE ON FUNCTION sluice.schema_version
    TO sluice_producer, sluice_worker, sluice_operator, sluice_reader, sluice_claimer;

  -- Enqueues, in any queue. It cannot choose an id, and so no place in an order, nor count attempts; of the messages that
  -- are there it sees the ids, which INSERT ... RETURNING takes.
  GRANT INSERT (queue, payload, headers, type, schema_version, ordering_key, priority, due_at, max_attempts), SELECT (id)
    ON sluice.message TO sluice_producer;
  GRANT EXECUTE ON FUNCTION sluice.enqueue, sluice.insert_plain, sluice.insert_message, sluice.foreign_characters TO sluice_producer;

  -- Claims and settles. It cannot enqueue, nor change what a message says, nor read dead letters but for their ids,
  -- by which it counts what it has moved there.
  GRANT SELECT, DELETE, UPDATE (due_at, attempt, last_error, failed_at, lease) ON sluice.message TO sluice_worker;
  GRANT SELECT, INSERT (queue, slot), UPDATE (held) ON sluice.slot TO sluice_worker;
  GRANT INSERT (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason,
                error, enqueued_at), SELECT (id)
    ON sluice.dead_letter TO sluice_worker;
  GRANT SELECT, INSERT, UPDATE, DELETE ON sluice.worker TO sluice_worker;
  GRANT SELECT, INSERT, DELETE ON sluice.batch, sluice.crash TO sluice_worker;
  GRANT USAGE ON SEQUENCE sluice.worker_id_seq TO sluice_worker;
  GRANT SELECT ON sluice.queues, sluice.workers, sluice.in_flight TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice.batches, sluice.clock, sluice.foreign_characters, sluice.leased_keys,
    sluice.require_settled TO sluice_worker;

  -- Looks, at payloads too. A function in a view has the rights of who looks, so what it reads is granted as well.
  GRANT SELECT ON sluice.queues, sluice.messages, sluice.in_flight, sluice.workers, sluice.dead_letters, sluice.claims
    TO sluice_reader, sluice_operator;
  GRANT SELECT ON sluice.batch TO sluice_reader, sluice_operator;
  GRANT SELECT (queue, id, priority, slot, ordering_key, due_at) ON sluice.message TO sluice_reader, sluice_operator;
  GRANT EXECUTE ON FUNCTION sluice.batches, sluice.clock, sluice.peek TO sluice_reader, sluice_operator;

  -- Redrives and deletes dead letters, and releases claims, as well. A message that comes back has its old id, so it can choose ids.
  GRANT SELECT, DELETE ON sluice.dead_letter TO sluice_operator;
  GRANT INSERT (queue, id, priority, ordering_key, type, schema_version, payload, headers, max_attempts, enqueued_at,
                last_error)
    ON sluice.message TO sluice_operator;
  GRANT EXECUTE ON FUNCTION sluice.redrive, sluice.claim_release TO sluice_operator;

  -- Claims by the functions, which run with the rights of the schema's owner, and does nothing else. It sees no table.
  GRANT EXECUTE ON FUNCTION sluice.claim, sluice.claim_get, sluice.claim_renew, sluice.claim_release, sluice.claim_settle,
    sluice.pop, sluice.foreign_characters TO sluice_claimer;
END
$roles$;
