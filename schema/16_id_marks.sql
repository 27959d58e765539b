-- Which ids of messages had been drawn by when, so that an explanation can tell which open transactions cannot have drawn
-- one.

-- By this time all ids up to this one had been drawn. Kept for two days: 576 rows with a pass of
-- maintenance every five minutes, which calls both functions.
CREATE TABLE sluice.id_mark (
  id bigint      NOT NULL CONSTRAINT id_mark_pkey PRIMARY KEY,
  at timestamptz NOT NULL
) WITH (vacuum_truncate = off);

-- Notes it as of now, unless it was noted within the last half minute, or nothing has been drawn since.
CREATE FUNCTION sluice_private.mark_ids() RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
DECLARE
  -- Before the clock is read.
  last_id bigint := pg_sequence_last_value(pg_get_serial_sequence('sluice.message', 'id')::regclass);
  newest sluice.id_mark;
BEGIN
  SELECT m.* INTO newest FROM sluice.id_mark m ORDER BY m.id DESC LIMIT 1;
  IF last_id > coalesce(newest.id, 0) AND coalesce(newest.at < clock_timestamp() - interval '30 seconds', true) THEN
    INSERT INTO sluice.id_mark (id, at) VALUES (last_id, clock_timestamp()) ON CONFLICT DO NOTHING;
  END IF;
END
$$;

-- Removes old ones, and returns how many.
CREATE FUNCTION sluice_private.prune_id_marks(most integer) RETURNS integer
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  removed integer;
BEGIN
  DELETE FROM sluice.id_mark m WHERE m.ctid = ANY (ARRAY(
    SELECT o.ctid FROM sluice.id_mark o WHERE o.at < clock_timestamp() - interval '2 days'
    ORDER BY o.id LIMIT most FOR UPDATE OF o SKIP LOCKED
  ));
  GET DIAGNOSTICS removed = ROW_COUNT;
  RETURN removed;
END
$$;
