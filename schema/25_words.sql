-- Durations, counts and names as words of a sentence or of a command.

-- A time by its two largest units, as the command line writes it: 3m 12s.
CREATE FUNCTION sluice_private.duration_words(ms numeric) RETURNS text
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
CREATE FUNCTION sluice_private.duration_words_to(at timestamptz) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN isfinite(at) THEN sluice_private.duration_words(
    abs(extract(epoch FROM at)::numeric - extract(epoch FROM clock_timestamp())::numeric) * 1000
  ) WHEN at IS NOT NULL THEN 'ever' END
$$;

-- The same of an interval; one below zero counts as zero.
CREATE FUNCTION sluice_private.duration_words_of(age interval) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT sluice_private.duration_words(greatest(extract(epoch FROM age)::numeric, 0) * 1000)
$$;

-- What users wrote, in quotes and in one line.
CREATE FUNCTION sluice_private.quoted(given text) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT '"' || CASE WHEN length(line) > 200 THEN left(line, 200) || '...' ELSE line END || '"'
  FROM (SELECT btrim(regexp_replace(left(given, 2000), '[[:space:]]+', ' ', 'g')) AS line) l
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

-- The number of letters to insert, delete or change, and of neighbours to swap, between two names; null: it is more than a
-- typing mistake.
CREATE FUNCTION sluice_private.name_distance(given text, other text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  most integer := CASE WHEN length(other) < 4 THEN 1 ELSE greatest(2, length(other) / 3) END;
  earlier integer[];
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
        before[place] + CASE WHEN substr(given, at, 1) = substr(other, place, 1) THEN 0 ELSE 1 END,
        CASE WHEN at > 1 AND place > 1 AND substr(given, at - 1, 2) = reverse(substr(other, place - 1, 2))
          THEN earlier[place - 1] + 1 END);
    END LOOP;
    earlier := before;
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

-- How to double a limit of tenants in flight: that of the queue, or that of an endpoint with one of its own.
CREATE FUNCTION sluice_private.raise_limit(queue text, endpoint text, most integer) RETURNS text
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE WHEN endpoint IS NULL THEN format('npx sluice queue set %s --tenant-concurrency %s', queue, least(most * 2, 10000))
    ELSE format('npx sluice endpoint get %s %s # and set it with --concurrency %s', queue, endpoint, least(most * 2, 10000)) END
$$;
