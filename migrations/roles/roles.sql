-- Roles with the least that each task needs, and their grants in this database. Not a migration: roles belong to the
-- cluster, whose databases share them, and making one takes CREATEROLE. Run it as the owner of schema "sluice", again
-- after every migration and as often as you like: it leaves these six with what is written here, and PUBLIC with nothing.
--
-- One statement, so that no moment and no failure leaves half of it, whichever tool runs it. What is not a grant names
-- everything in full, because it runs under the search_path of whoever runs it.
DO $roles$
DECLARE
  role pg_catalog.text;
  log pg_catalog.regclass;
BEGIN
  IF NOT (SELECT pg_catalog.pg_has_role(n.nspowner, 'USAGE') FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.=) 'sluice') THEN
    -- Otherwise a GRANT that does nothing would only warn.
    RAISE EXCEPTION 'Roles: expected to be run by the owner of schema "sluice", received %', current_user
      USING ERRCODE = '42501';
  END IF;

  -- With no migration, and no other run of this in the database, beside it: two that grant at once disturb each other.
  PERFORM pg_catalog.pg_advisory_xact_lock(746500, 0);

  FOREACH role IN ARRAY ARRAY['sluice_producer', 'sluice_worker', 'sluice_operator', 'sluice_admin', 'sluice_reader', 'sluice_claimer'] LOOP
    CONTINUE WHEN pg_catalog.to_regrole(role) IS NOT NULL;
    BEGIN
      EXECUTE pg_catalog.format('CREATE ROLE %I NOLOGIN', role);
    EXCEPTION WHEN duplicate_object OR unique_violation THEN
      NULL; -- made by another database of the cluster at this moment
    END;
  END LOOP;

  REVOKE ALL ON SCHEMA sluice, sluice_private
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL TABLES IN SCHEMA sluice, sluice_private
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL SEQUENCES IN SCHEMA sluice
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader, sluice_claimer;
  REVOKE ALL ON ALL ROUTINES IN SCHEMA sluice, sluice_private
    FROM PUBLIC, sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader, sluice_claimer;

  GRANT USAGE ON SCHEMA sluice, sluice_private
    TO sluice_producer, sluice_worker, sluice_operator, sluice_admin, sluice_reader, sluice_claimer;
  GRANT EXECUTE ON FUNCTION sluice.schema_version TO sluice_producer, sluice_worker, sluice_operator, sluice_admin,
    sluice_reader, sluice_claimer;

  -- Enqueues, in any queue. It cannot choose an id, and so no place in an order, nor count attempts; of the messages that
  -- are there it sees the ids, which INSERT ... RETURNING takes.
  GRANT INSERT (queue, payload, headers, type, schema_version, ordering_key, priority, due_at, max_attempts, expires_at,
                retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms), SELECT (id)
    ON sluice.message TO sluice_producer;
  GRANT SELECT ON sluice.queue TO sluice_producer;
  -- Schedules enqueue later, and with the rights of the schema's owner.
  GRANT EXECUTE ON FUNCTION sluice.schedule, sluice_private.schedule_define, sluice_private.bounded_ms,
    sluice_private.check_type TO sluice_producer, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice.enqueue, sluice_private.insert_plain, sluice_private.insert_message,
    sluice_private.foreign_characters, sluice_private.first_due_at, sluice_private.check_payload_bytes,
    sluice_private.queue_defaults, sluice_private.check_enqueue, sluice_private.check_time,
    sluice_private.check_due_at, sluice_private.check_bytes, sluice_private.require_kept TO sluice_producer;
  -- By these it changes messages that wait and have its dedupe key. They run with the rights of the schema's owner.
  GRANT EXECUTE ON FUNCTION sluice.enqueue_deduped, sluice_private.check_dedupe, sluice_private.insert_deduped,
    sluice_private.insert_all_deduped TO sluice_producer;

  -- Appends to any stream by functions that run with the rights of the schema's owner, and reads no event.
  GRANT EXECUTE ON FUNCTION sluice.append, sluice.append_many TO sluice_producer;

  -- Receives messages from outside: it writes receipts, and dead letters of what can never be enqueued, and reads neither.
  GRANT EXECUTE ON FUNCTION sluice.received, sluice_private.receive, sluice_private.bury_received TO sluice_producer;
  -- Sends events to endpoints, which it does not see, by a function with the same rights.
  GRANT EXECUTE ON FUNCTION sluice.send_webhook TO sluice_producer;

  -- Claims and settles. It cannot enqueue, nor change what a message says, nor read dead letters but for their ids,
  -- by which it counts what it has moved there.
  GRANT SELECT, DELETE, UPDATE (due_at, attempt, last_error, failures, failed_at, lease) ON sluice.message TO sluice_worker;
  GRANT SELECT, INSERT (queue, slot), UPDATE (held) ON sluice.slot TO sluice_worker;
  GRANT INSERT (queue, id, priority, ordering_key, type, schema_version, payload, headers, attempt, max_attempts, reason,
                error, failures, enqueued_at, retry_policy, lease_ms, tenant, dedupe_key, dedupe_ms, event_position), SELECT (id)
    ON sluice.dead_letter TO sluice_worker;
  GRANT SELECT ON sluice.queue, sluice.cancel_request, sluice.source TO sluice_worker;
  GRANT SELECT, INSERT, UPDATE, DELETE ON sluice.worker TO sluice_worker;
  GRANT SELECT, INSERT, DELETE ON sluice.batch_record, sluice.crash TO sluice_worker;
  GRANT INSERT ON sluice.kept_key, sluice.worker_activity TO sluice_worker;
  GRANT USAGE ON SEQUENCE sluice.worker_id_seq TO sluice_worker;
  GRANT SELECT, INSERT (queue, tenant, n), UPDATE (message_id, lease), DELETE ON sluice.permit TO sluice_worker;
  GRANT SELECT, INSERT, UPDATE (tokens, at) ON sluice.bucket TO sluice_worker;
  GRANT SELECT, INSERT, UPDATE (tenant, apart, noted_at) ON sluice.turn TO sluice_worker;
  -- Of endpoints a claim sees which to pass over, and their limits. Their secrets a worker gets by a function.
  GRANT SELECT (queue, name, concurrency, state, closed_until) ON sluice.endpoint TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.endpoints_to_call TO sluice_worker, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice_private.note_attempts TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.prepare_claim, sluice_private.count_claimable, sluice_private.lock_growth,
    sluice_private.fit_permits, sluice_private.lock_surplus, sluice_private.end_run_out, sluice_private.empty_permits,
    sluice_private.make_permits, sluice_private.count_free, sluice_private.count_permits, sluice_private.last_permit,
    sluice_private.permit_taken, sluice_private.most_in_flight, sluice_private.lock_permits, sluice_private.lease_permits, sluice_private.take_tokens,
    sluice_private.return_tokens, sluice_private.renew_permitted, sluice_private.lease_allowed,
    sluice_private.in_progress, sluice_private.full_xid, sluice_private.count_of_tenant, sluice_private.lock_of_tenant,
    sluice_private.untenanted, sluice_private.lock_untenanted, sluice_private.lock_due, sluice_private.pick_tenants,
    sluice_private.room_of_tenant, sluice_private.wait_of_tenant, sluice_private.share_out, sluice_private.note_turn,
    sluice_private.lock_shares, sluice_private.lock_keyed, sluice_private.lock_in_slot, sluice_private.ctids_of TO
    sluice_worker;
  GRANT SELECT ON sluice.queues, sluice.workers, sluice.in_flight, sluice.limits, sluice.relays, sluice.inboxes, sluice.queue_settings, sluice.schedules TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.batch_records, sluice_private.read_peer, sluice_private.clock, sluice_private.foreign_characters,
    sluice_private.leased_keys, sluice_private.lock_due_again, sluice_private.lock_missed, sluice_private.require_settled,
    sluice_private.require_kept, sluice_private.add_failure, sluice_private.drop_in_hand, sluice_private.expire_locked,
    sluice_private.remove_locked, sluice_private.dead_letter_locked, sluice_private.bury_row, sluice_private.rows_of,
    sluice_private.idle_lease, sluice_private.record_crash, sluice_private.record_hung, sluice_private.has_one_message,
    sluice_private.ctids_of, sluice_private.release_holds, sluice_private.wake, sluice_private.notify, sluice_private.is_of_group TO sluice_worker;
  -- It writes the history, and does not read it. What maintenance removes, it removes by functions.
  GRANT INSERT ON sluice.completed_message TO sluice_worker;
  GRANT SELECT, INSERT (begun_at, begun_by), UPDATE (begun_at, begun_by) ON sluice.maintenance
    TO sluice_worker, sluice_operator, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice.make_history, sluice.drop_history, sluice.prune_history, sluice.remove_expired,
    sluice.prune_dead_letters, sluice.prune_dedupe, sluice.prune_receipts, sluice.prune_leftovers, sluice_private.note_backlogs, sluice_private.mark_ids,
    sluice.keep_segments, sluice.segments_to_drop, sluice.drop_segment TO sluice_worker, sluice_operator, sluice_admin;
  -- Enqueues what schedules say, and nothing else.
  GRANT SELECT ON sluice.schedule TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.schedule_fire, sluice_private.schedule_plan, sluice_private.schedule_failed
    TO sluice_worker;

  -- Reads streams and moves groups on. A stream's own table is granted when it is made, and here to whom it was not.
  GRANT SELECT ON sluice.stream, sluice.segment, sluice.event, sluice.stream_group, sluice.group_queued TO sluice_worker;
  GRANT SELECT, INSERT, DELETE, UPDATE (held_until, attempt, last_error, failures) ON sluice.group_progress TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.stable_ends, sluice_private.stream_head, sluice_private.queue_events,
    sluice_private.dead_letter_events, sluice_private.note_empty, sluice_private.refuse_group_queue TO sluice_worker;
  GRANT SELECT ON sluice.streams, sluice.groups TO sluice_worker;
  GRANT EXECUTE ON FUNCTION sluice_private.read_stream, sluice_private.read_group_partitions TO sluice_worker;
  FOR log IN SELECT i.inhrelid::pg_catalog.regclass FROM pg_catalog.pg_inherits i WHERE i.inhparent OPERATOR(pg_catalog.=) 'sluice.event'::pg_catalog.regclass LOOP
    EXECUTE pg_catalog.format('GRANT SELECT ON %s TO sluice_worker', log);
  END LOOP;

  -- Looks, at payloads too. A function in a view has the rights of who looks, so what it reads is granted as well.
  GRANT SELECT ON sluice.queues, sluice.messages, sluice.in_flight, sluice.workers, sluice.worker_statistics, sluice.relays, sluice.inboxes, sluice.dead_letters,
    sluice.claims, sluice.completed, sluice.limits, sluice.queue_settings, sluice.schedules, sluice.audit, sluice.setting, sluice.backlogs,
    sluice.held_keys, sluice.endpoints
    TO sluice_reader, sluice_operator, sluice_admin;
  GRANT SELECT ON sluice.batch_record, sluice.dedupe, sluice.kept_key, sluice.worker_activity, sluice.backlog_sample TO sluice_reader, sluice_operator, sluice_admin;
  GRANT SELECT (queue, id, priority, slot, ordering_key, due_at) ON sluice.message TO sluice_reader, sluice_operator, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice_private.batch_records, sluice_private.read_peer, sluice_private.clock, sluice.peek, sluice.status, sluice.activity, sluice.doctor
    TO sluice_reader, sluice_operator, sluice_admin;

  -- Of streams as well, by functions where a table is made later than this.
  GRANT SELECT ON sluice.streams, sluice.groups, sluice.group_partitions, sluice.stream, sluice.stream_group
    TO sluice_reader, sluice_operator, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice_private.read_stream, sluice_private.read_group_partitions, sluice_private.stream_stable_ends,
    sluice.stream_positions, sluice_private.event_partition, sluice_private.read_events, sluice.events,
    sluice_private.next_position TO sluice_reader, sluice_operator, sluice_admin;

  -- Explains. What is read has the rights of the schema's owner, and what is told of sessions those of who asks.
  GRANT EXECUTE ON FUNCTION sluice.explain, sluice.explain_queue, sluice.explain_event, sluice.explain_schedule,
    sluice_private.message_reasons, sluice_private.key_reasons, sluice_private.queue_reasons, sluice_private.event_reasons,
    sluice_private.schedule_reasons, sluice_private.explained, sluice_private.shown_reasons, sluice_private.session_facts,
    sluice_private.session_words, sluice_private.end_of_session, sluice_private.blocker_of,
    sluice_private.why_table_locked, sluice_private.say, sluice_private.duration_words_to, sluice_private.duration_words,
    sluice_private.quoted TO sluice_reader, sluice_operator, sluice_admin;

  -- Acts in an incident, and neither writes content nor takes away more than one message at a time: pauses, redrives, runs
  -- now, reschedules, cancels, releases claims, moves groups. All of it by functions that run with the rights of the schema's
  -- owner; a redrive by statement would need the right to insert any message.
  GRANT SELECT ON sluice.dead_letter TO sluice_operator, sluice_admin;
  GRANT EXECUTE ON FUNCTION sluice.redrive, sluice.claim_release, sluice.pause, sluice.resume, sluice.is_paused,
    sluice.free_key, sluice.cancel, sluice.reschedule, sluice.run_now, sluice_private.release_holds,
    sluice.schedule_pause, sluice.schedule_resume, sluice.schedule_run_now, sluice.seek_group, sluice.retry_partitions,
    sluice.skip_event, sluice.endpoint_enable, sluice.endpoint_disable TO sluice_operator, sluice_admin;

  -- Besides, changes what messages say, clears queues, deletes dead letters, and changes queues, schedules, streams and groups.
  GRANT EXECUTE ON FUNCTION sluice.change, sluice.clear_some, sluice.move_messages, sluice.free_keys, sluice.queue_set, sluice.delete_dead_letters, sluice.audit_keep,
    sluice_private.foreign_characters, sluice.schedule_delete, sluice.create_stream, sluice.create_group,
    sluice.group_set, sluice.delete_group, sluice.trim_stream, sluice.endpoint_set, sluice.endpoint_rotate,
    sluice.endpoint_delete TO sluice_admin;

  -- Claims by the functions, which run with the rights of the schema's owner, and does nothing else. It sees no table.
  GRANT EXECUTE ON FUNCTION sluice.claim, sluice.claim_get, sluice.claim_renew, sluice.claim_release,
    sluice.claim_settle, sluice.pop, sluice.is_paused, sluice_private.foreign_characters TO sluice_claimer;
END
$roles$;
