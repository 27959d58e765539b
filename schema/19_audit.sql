-- Who did what: a row for each action of an operator or an administrator, in the transaction of the action.
--
-- Public functions: sluice.audit_keep.

-- actor: what the caller says of who acts. login, application: what the server knows. subject: a dedupe key, a schedule,
-- a stream, an endpoint or the number of a claim. message_ids: the first 100 of the messages. Only functions with the rights of the
-- schema's owner write it, once for each call, whatever it changes: workers and applications that enqueue write nothing.
CREATE TABLE sluice.action (
  at          timestamptz NOT NULL DEFAULT clock_timestamp(),
  id          bigint      NOT NULL GENERATED ALWAYS AS IDENTITY,
  actor       text        NOT NULL,
  login       text        NOT NULL,
  application text,
  action      text        NOT NULL,
  queue       text,
  subject     text,
  message_ids bigint[],
  count       bigint      NOT NULL,
  details     jsonb       NOT NULL DEFAULT '{}',
  -- In the order of time, in which pages are read and old rows are removed.
  CONSTRAINT action_pkey PRIMARY KEY (at, id)
);

CREATE INDEX action_queue_idx ON sluice.action (queue, at, id) WHERE queue IS NOT NULL;

-- What was done to one message, among all actions. Without a list of pending entries, which each search would read.
CREATE INDEX action_message_idx ON sluice.action USING gin (message_ids) WITH (fastupdate = off);

-- Who acts: the name given with the call, else that of the setting sluice.actor, else the login.
CREATE FUNCTION sluice_private.actor(given text DEFAULT NULL) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT left(coalesce(nullif(given, ''), nullif(current_setting('sluice.actor', true), ''), session_user::text), 200)
$$;

-- Notes an action that has changed something. given: who acts, where the call names somebody. continues: the call is a step
-- of several, so it is counted with the step before it: the actor's latest such action in the queue, for ten minutes. That
-- row is found by action_queue_idx, among what was done in the queue in this time.
CREATE FUNCTION sluice_private.note_action(
  action text, queue text, count bigint, subject text DEFAULT NULL, message_ids bigint[] DEFAULT NULL,
  details jsonb DEFAULT '{}', given text DEFAULT NULL, continues boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  actor text := sluice_private.actor(given);
BEGIN
  IF count = 0 THEN
    RETURN;
  END IF;
  IF continues THEN
    UPDATE sluice.action a SET count = a.count + note_action.count
    WHERE (a.at, a.id) = (
      SELECT o.at, o.id FROM sluice.action o
      WHERE o.queue = queue AND o.at > clock_timestamp() - interval '10 minutes' AND o.action = action
        AND o.actor = actor AND o.login = session_user AND o.details = details
      ORDER BY o.at DESC, o.id DESC LIMIT 1
    );
    IF FOUND THEN
      RETURN;
    END IF;
  END IF;
  INSERT INTO sluice.action (actor, login, application, action, queue, subject, message_ids, count, details)
  VALUES (actor, session_user, nullif(current_setting('application_name'), ''), action, queue, subject,
          message_ids[1:100], count, details);
END
$$;

-- The same for what workers and clients do as well, with their own claims: it is an action if somebody is named.
CREATE FUNCTION sluice_private.note_if_named(action text, queue text, claim_id bigint, message_ids bigint[],
  details jsonb DEFAULT '{}') RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF current_setting('sluice.actor', true) <> '' THEN
    PERFORM sluice_private.note_action(action, queue, cardinality(message_ids), claim_id::text, message_ids, details);
  END IF;
END
$$;

-- Removes the oldest actions that are too old, by the primary key.
CREATE FUNCTION sluice_private.prune_actions(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  before timestamptz := clock_timestamp() - (SELECT s.audit_keep_ms FROM sluice.setting s) * interval '1 millisecond';
  deleted integer;
BEGIN
  DELETE FROM sluice.action a WHERE a.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.action o WHERE o.at < before ORDER BY o.at, o.id LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;

CREATE FUNCTION sluice.audit_keep(keep interval) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  ms double precision := extract(epoch FROM keep) * 1000;
BEGIN
  -- A day, so that nobody does something and has it forgotten at once; 100 years, as everywhere.
  IF (ms BETWEEN 86400000 AND 3155760000000) IS NOT TRUE THEN
    RAISE EXCEPTION 'keep: expected a time from 1 day to 100 years, received %', coalesce(keep::text, 'NULL')
      USING ERRCODE = '22023', HINT = 'As in sluice.audit_keep(''90 days'').';
  END IF;
  UPDATE sluice.setting s SET audit_keep_ms = ms WHERE s.audit_keep_ms <> ms::bigint;
  IF FOUND THEN
    PERFORM sluice_private.note_action('audit.keep', NULL, 1, details => jsonb_build_object('keep_ms', ms::bigint));
  END IF;
END
$$;
COMMENT ON FUNCTION sluice.audit_keep IS 'Sets how long actions are kept in sluice.audit: 1 day to 100 years.';
