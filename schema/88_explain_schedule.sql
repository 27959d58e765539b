-- Explains a schedule: why it has not enqueued a message.
--
-- Public functions: sluice.explain_schedule.

-- Of a schedule whose next occurrence is due, or has not been computed: who could, and why nobody has.
CREATE FUNCTION sluice_private.why_overdue(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  holder integer := (SELECT sluice_private.locker(o.xmax, sluice_private.row_locks()) FROM sluice.schedule o
    WHERE o.name = s.name);
BEGIN
  IF s.next_at > clock_timestamp() THEN
    RETURN;
  END IF;
  IF holder IS NOT NULL THEN
    RETURN NEXT sluice_private.say('locked', 'A session has locked the schedule: workers pass it over.',
      remedy => sluice_private.end_of_session(holder), pid => holder);
  END IF;
  IF NOT EXISTS (SELECT FROM sluice.workers w WHERE w.alive) THEN
    RETURN NEXT sluice_private.say('no_worker',
      'No worker process is alive: only a process whose Sluice has started looks at schedules.',
      remedy => sluice_private.start_a_worker());
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_all_workers_stale(NULL);
  IF s.planned THEN
    RETURN NEXT sluice_private.say('overdue',
      format('Its occurrence has been due for %s. The next look of a live worker enqueues it, or treats it as missed '
        'if it is more than %s late (missed: %s).', sluice_private.duration_words_to(s.next_at),
      sluice_private.duration_words(s.grace_ms), s.missed), since => s.next_at,
      remedy => format('npx sluice schedule run-now %s', s.name));
  ELSE
    RETURN NEXT sluice_private.say('not_planned',
      'Its next occurrence is not computed yet: the next look of a live worker does that.', since => s.next_at);
  END IF;
END
$$;

-- Its last message is still there, and it must not overlap.
CREATE FUNCTION sluice_private.why_overlap(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF NOT s.overlap AND EXISTS (SELECT FROM sluice.message m WHERE m.queue = s.queue AND m.id = s.last_id) THEN
    RETURN NEXT sluice_private.say('overlap',
      format('Its last message, %s, is still in queue "%s", and occurrences are skipped until that is gone (overlap: '
        'false).', s.last_id, s.queue), since => s.last_enqueued_at,
      details => jsonb_build_object('message', s.last_id::text),
      remedy => format('npx sluice explain %s %s', s.queue, s.last_id));
  END IF;
END
$$;

-- What it has done: its last message, and what it has skipped.
CREATE FUNCTION sluice_private.schedule_past(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF s.last_id IS NOT NULL THEN
    RETURN NEXT sluice_private.say('enqueued',
      format('It enqueued message %s in queue "%s" %s ago.', s.last_id, s.queue,
      sluice_private.duration_words_to(s.last_enqueued_at)), since => s.last_enqueued_at,
      details => jsonb_build_object('message', s.last_id::text, 'occurrence', s.last_at),
      remedy => format('npx sluice explain %s %s', s.queue, s.last_id));
  END IF;
  IF s.skipped > 0 THEN
    RETURN NEXT sluice_private.say('skipped',
      format('%s skipped since it was made: more than %s late (missed: %s)%s.',
        sluice_private.counted(s.skipped, 'occurrence') || CASE s.skipped WHEN 1 THEN ' was' ELSE ' were' END,
      sluice_private.duration_words(s.grace_ms), s.missed,
      CASE WHEN s.overlap THEN '' ELSE ', or its last message was still there' END),
      details => jsonb_build_object('skipped', s.skipped),
      remedy => format('npx sluice schedule get %s', s.name));
  END IF;
END
$$;

-- There is none of this name. Of the first 200 names it gives the nearest.
CREATE FUNCTION sluice_private.why_no_schedule(name text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_variable
DECLARE
  nearest text := sluice_private.nearest_name(name,
    ARRAY(SELECT o.name FROM sluice.schedule o ORDER BY o.name LIMIT 200));
BEGIN
  RETURN NEXT sluice_private.say('not_found',
    format('There is no schedule "%s".', name) || coalesce(' Did you mean "' || nearest || '"?', ''),
    details => jsonb_build_object('nearest', nearest),
    remedy => coalesce('npx sluice explain --schedule ' || nearest, 'npx sluice schedule list'));
END
$$;

CREATE FUNCTION sluice_private.why_schedule_paused(s sluice.schedule) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF s.paused_at IS NOT NULL THEN
    RETURN NEXT sluice_private.say('paused',
      format('The schedule was paused %s ago%s', sluice_private.duration_words_to(s.paused_at),
        coalesce(' by ' || sluice_private.quoted(s.paused_by), ''))
      || coalesce(': ' || sluice_private.quoted(s.pause_reason), '') || '.',
      since => s.paused_at, details => jsonb_build_object('pausedBy', s.paused_by, 'pauseReason', s.pause_reason),
      remedy => format('npx sluice schedule resume %s', s.name));
  END IF;
END
$$;

CREATE FUNCTION sluice_private.schedule_reasons(name text) RETURNS SETOF sluice_private.reason
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET row_security = off AS $$
#variable_conflict use_variable
DECLARE
  s sluice.schedule;
BEGIN
  SELECT o.* INTO s FROM sluice.schedule o WHERE o.name = name;
  IF s.name IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_no_schedule(name);
    RETURN;
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_schedule_paused(s);
  IF s.error IS NOT NULL THEN
    RETURN NEXT sluice_private.say('failed',
      format('Its next occurrence could not be computed or enqueued: %s.',
      sluice_private.quoted(s.error)), details => jsonb_build_object('error', left(s.error, 2000)),
      remedy => format('npx sluice schedule get %s # and define it again as the error says', s.name));
  END IF;
  IF s.paused_at IS NULL AND s.next_at IS NULL THEN
    RETURN NEXT sluice_private.say('ended', 'It has no further occurrence.', since => s.last_at,
      remedy => format('npx sluice schedule get %s', s.name));
  ELSIF s.paused_at IS NULL THEN
    RETURN QUERY SELECT * FROM sluice_private.why_overdue(s);
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.why_overlap(s);
  IF s.paused_at IS NULL AND s.planned AND s.next_at > clock_timestamp() THEN
    RETURN NEXT sluice_private.say('not_due',
      format('Its next occurrence is in %s.', sluice_private.duration_words_to(s.next_at)),
      until => s.next_at, remedy => format('npx sluice schedule run-now %s', s.name));
  END IF;
  RETURN QUERY SELECT * FROM sluice_private.schedule_past(s);
END
$$;

CREATE FUNCTION sluice.explain_schedule(name text) RETURNS TABLE (
  reason text, explanation text, since timestamptz, until timestamptz, details jsonb, remedy text
)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT e.* FROM sluice_private.explained('schedule_reasons', ARRAY[explain_schedule.name]) e
$$;
COMMENT ON FUNCTION sluice.explain_schedule IS
  'Explains why a schedule has not enqueued a message: one row per reason, the main one first, as sluice.explain does.';
