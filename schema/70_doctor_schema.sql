-- What the doctor finds in the schema: it compares the catalog with what the migrations have made.
--
-- Each part of the doctor is a function that returns findings. It reads with the rights of the owner, because
-- sluice.doctor calls it, and changes and locks nothing.

-- severity: error (messages can be lost, delayed or stuck), warning (it costs, or will), unknown (not to be seen).
CREATE TYPE sluice_private.finding AS (kind text, severity text, subject text, finding text, remedy text);

-- The definitions of what the migrations have made in the schemas sluice and sluice_private: see sluice_private.catalog.
-- server: the major version of the server that wrote the definition; another one may write the same with other words.
CREATE TABLE sluice.object_definition (
  kind       text    NOT NULL,
  name       text    NOT NULL,
  -- The table that it belongs to; null: none.
  relation   text,
  definition text    NOT NULL,
  server     integer NOT NULL,
  CONSTRAINT object_definition_pkey PRIMARY KEY (kind, name)
);

-- A definition in the form that a dump and a restore leave as it is. The server flattens an AND in another AND, as a BETWEEN
-- makes one, when it reads its own words again, and OR in OR: it may have been ((a AND b) AND c), and is now (a AND b AND c).
-- All other parentheses count. From the inside out, each pair of parentheses becomes a number; literals and quoted names
-- have become digests before, because they may have parentheses too. Milliseconds for a long view, so only where two
-- definitions are not the same text.
CREATE FUNCTION sluice_private.flat_definition(definition text) RETURNS text
LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rest text := (
    SELECT string_agg(CASE WHEN t.part[1] ~ '^[''"]' THEN 'L' || md5(t.part[1]) ELSE regexp_replace(t.part[1], '[[:space:]]+', ' ', 'g') END,
      '' ORDER BY t.nth)
    FROM regexp_matches(definition, '''(?:[^'']|'''')*''|"(?:[^"]|"")*"|[^''"]+', 'g') WITH ORDINALITY AS t (part, nth)
  );
  flat text[] := '{}';
  joined text[] := '{}';
  content text;
  word text;
BEGIN
  LOOP
    content := btrim(substring(rest FROM '[(]([^()]*)[)]'));
    EXIT WHEN content IS NULL;
    word := CASE WHEN content ~ ' AND ' AND content !~ ' OR ' THEN 'AND' WHEN content ~ ' OR ' AND content !~ ' AND ' THEN 'OR' END;
    IF word IS NOT NULL THEN
      content := (
        SELECT string_agg(CASE WHEN joined[o.n] = word THEN flat[o.n] ELSE o.operand END, format(' %s ', word) ORDER BY o.nth)
        FROM (
          SELECT s.operand, s.nth, substring(s.operand FROM '^<([0-9]+)>$')::integer AS n
          FROM regexp_split_to_table(content, format(' %s ', word)) WITH ORDINALITY AS s (operand, nth)
        ) o
      );
    END IF;
    flat := flat || content;
    joined := joined || word;
    rest := regexp_replace(rest, '[(][^()]*[)]', '<' || cardinality(flat) || '>');
  END LOOP;
  FOR n IN REVERSE cardinality(flat)..1 LOOP
    rest := replace(rest, '<' || n || '>', '(' || flat[n] || ')');
  END LOOP;
  RETURN rest;
END
$$;

-- What there is now: one row per table, its storage settings, its columns, constraints, indexes, triggers and rules, and
-- per view, type and function, with its definition and with what keeps it from working. Not the tables that are made at run
-- time, for streams and days of history, and not the migrator's own. The settings decide how the server writes a
-- definition; a digest stands for that of a function. About 860 rows in 13 ms: it reads the catalogs, and none of the
-- tables.
CREATE FUNCTION sluice_private.catalog()
RETURNS TABLE (kind text, name text, relation text, definition text, broken text)
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET quote_all_identifiers = off
SET standard_conforming_strings = on SET timezone = 'UTC' SET datestyle = 'ISO, YMD' SET intervalstyle = 'postgres'
SET extra_float_digits = 1 AS $$
  WITH relation AS MATERIALIZED (
    SELECT c.oid, c.oid::regclass::text AS name, c.relkind, c.relpersistence, c.reloptions, c.relrowsecurity
    FROM pg_class c
    WHERE c.relnamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND c.relkind IN ('r', 'p', 'v')
      AND c.relname <> ALL ('{migration,migration_lock}')
      AND c.relname !~ '^(event_[0-9]+(_[0-9]+)?|completed_[0-9]{8})$'
  ), found AS (
    SELECT CASE r.relkind WHEN 'v' THEN 'view' ELSE 'table' END AS kind, r.name, NULL::text AS relation,
           CASE WHEN r.relkind = 'v' THEN pg_get_viewdef(r.oid)
             ELSE CASE r.relpersistence WHEN 'u' THEN 'UNLOGGED ' ELSE '' END || 'TABLE'
               || coalesce(' PARTITION BY ' || pg_get_partkeydef(r.oid), '') END AS definition, NULL::text AS broken
    FROM relation r
    UNION ALL
    -- autovacuum_enabled is a check of its own.
    SELECT 'storage', r.name, r.name, coalesce((SELECT string_agg(o, ', ' ORDER BY o) FROM unnest(r.reloptions) o
             WHERE o NOT LIKE 'autovacuum_enabled=%'), ''), NULL
    FROM relation r WHERE r.relkind <> 'v'
    UNION ALL
    SELECT 'column', r.name || '.' || quote_ident(a.attname), r.name,
           format_type(a.atttypid, a.atttypmod)
             || CASE a.attidentity WHEN 'a' THEN ' GENERATED ALWAYS AS IDENTITY'
                                   WHEN 'd' THEN ' GENERATED BY DEFAULT AS IDENTITY' ELSE '' END
             || CASE WHEN a.attgenerated <> '' THEN ' GENERATED ALWAYS AS '
                     WHEN d.adbin IS NOT NULL THEN ' DEFAULT ' ELSE '' END
             || coalesce(pg_get_expr(d.adbin, d.adrelid), '')
             || CASE WHEN a.attnotnull THEN ' NOT NULL' ELSE '' END, NULL
    FROM relation r JOIN pg_attribute a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
    LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
    WHERE r.relkind <> 'v'
    UNION ALL
    SELECT 'constraint', r.name || '.' || quote_ident(c.conname), r.name, pg_get_constraintdef(c.oid),
           CASE WHEN NOT c.convalidated OR NOT coalesce(i.indisvalid, true) THEN 'invalid' END
    FROM relation r
    JOIN pg_constraint c ON c.conrelid = r.oid AND c.conparentid = 0 AND c.contype IN ('c', 'p', 'u', 'x', 'f')
    LEFT JOIN pg_index i ON i.indexrelid = c.conindid AND c.contype <> 'f'
    UNION ALL
    -- Of other tables: each row that refers to a message would lock it.
    SELECT 'foreign key', c.conrelid::regclass::text || '.' || quote_ident(c.conname), c.conrelid::regclass::text,
           pg_get_constraintdef(c.oid), NULL
    FROM relation r JOIN pg_constraint c ON c.confrelid = r.oid AND c.contype = 'f' AND c.conparentid = 0
    UNION ALL
    SELECT 'index', i.indexrelid::regclass::text, r.name, pg_get_indexdef(i.indexrelid),
           CASE WHEN NOT i.indisvalid OR NOT i.indisready OR NOT i.indislive THEN 'invalid' END
    FROM relation r JOIN pg_index i ON i.indrelid = r.oid
    WHERE NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.contype IN ('p', 'u', 'x'))
      -- Of a partition: it goes and comes with that of the whole.
      AND NOT EXISTS (SELECT FROM pg_inherits h WHERE h.inhrelid = i.indexrelid)
    UNION ALL
    SELECT 'trigger', r.name || '.' || quote_ident(t.tgname), r.name, pg_get_triggerdef(t.oid),
           CASE WHEN t.tgenabled IN ('D', 'R') THEN 'disabled' END
    FROM relation r JOIN pg_trigger t ON t.tgrelid = r.oid AND NOT t.tgisinternal AND t.tgparentid = 0
    UNION ALL
    SELECT 'rule', r.name || '.' || quote_ident(u.rulename), r.name, pg_get_ruledef(u.oid), NULL
    FROM relation r JOIN pg_rewrite u ON u.ev_class = r.oid AND u.rulename <> '_RETURN'
    UNION ALL
    SELECT 'row security', r.name, r.name, 'enabled', NULL FROM relation r WHERE r.relrowsecurity
    UNION ALL
    SELECT 'type', format_type(t.oid, NULL), NULL,
           CASE WHEN t.typtype = 'd' THEN 'DOMAIN ' || format_type(t.typbasetype, t.typtypmod) ELSE (
             SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod), ', ' ORDER BY a.attnum)
             FROM pg_attribute a WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped) END, NULL
    FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
    WHERE t.typnamespace = 'sluice_private'::regnamespace AND (t.typtype = 'd' OR c.relkind = 'c')
    UNION ALL
    SELECT 'constraint', format_type(t.oid, NULL) || '.' || quote_ident(c.conname), NULL,
           pg_get_constraintdef(c.oid), NULL
    FROM pg_type t JOIN pg_constraint c ON c.contypid = t.oid AND c.contype = 'c'
    WHERE t.typnamespace = 'sluice_private'::regnamespace AND t.typtype = 'd'
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text, NULL, md5(pg_get_functiondef(p.oid)), NULL
    FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prokind = 'f'
  )
  SELECT f.kind, f.name, f.relation, f.definition, f.broken FROM found f
$$;

-- Notes the definitions of what a migration has made: all there is, or what has these names. A later migration names what it
-- has made, changed or removed, so that nothing else that has changed in the meantime counts as made.
CREATE FUNCTION sluice_private.note_definitions(names text[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  DELETE FROM sluice.object_definition m WHERE names IS NULL OR m.name = ANY (names) OR m.relation = ANY (names);
  INSERT INTO sluice.object_definition (kind, name, relation, definition, server)
  SELECT c.kind, c.name, c.relation, c.definition, current_setting('server_version_num')::integer / 10000
  FROM sluice_private.catalog() c
  WHERE names IS NULL OR c.name = ANY (names) OR c.relation = ANY (names);
END
$$;

-- How what is missing, changed or broken is brought back.
CREATE FUNCTION sluice_private.restore_sql(kind text, name text, relation text, definition text, broken text)
RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE
    WHEN kind = 'index' AND broken = 'invalid' THEN format('REINDEX INDEX CONCURRENTLY %s;', name)
    WHEN kind = 'index' AND definition LIKE '% ON ONLY %' THEN replace(definition, ' ON ONLY ', ' ON ') || ';'
    WHEN kind = 'index'
      THEN regexp_replace(definition, '^CREATE (UNIQUE )?INDEX ', E'CREATE \\1INDEX CONCURRENTLY ') || ';'
    WHEN kind = 'trigger' AND broken = 'disabled'
      THEN format('ALTER TABLE %s ENABLE TRIGGER %s;', relation, substr(name, length(relation) + 2))
    WHEN kind = 'trigger' THEN definition || ';'
    WHEN kind = 'constraint' AND broken = 'invalid' AND definition LIKE 'CHECK%'
      THEN format('ALTER TABLE %s VALIDATE CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN kind = 'constraint' AND broken = 'invalid'
      THEN format('REINDEX TABLE CONCURRENTLY %s;', relation)
    WHEN kind = 'constraint' AND relation IS NOT NULL
      THEN format('ALTER TABLE %s ADD CONSTRAINT %s %s;', relation, substr(name, length(relation) + 2), definition)
    ELSE 'npx sluice migrate --print # has its definition' END
$$;

-- The storage settings of the first list that are not in the second.
CREATE FUNCTION sluice_private.other_settings(settings text, others text) RETURNS text[]
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT ARRAY(SELECT o FROM unnest(string_to_array(settings, ', ')) o WHERE o <> ALL (string_to_array(others, ', ')))
$$;

-- How storage settings are brought back: those that were added go, unless their old value comes back.
CREATE FUNCTION sluice_private.restore_storage(relation text, lost text[], added text[]) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT concat_ws(' ',
    (SELECT format('ALTER TABLE %s RESET (%s);', relation, string_agg(split_part(o, '=', 1), ', ')) FROM unnest(added) o
     WHERE split_part(o, '=', 1) <> ALL (ARRAY(SELECT split_part(l, '=', 1) FROM unnest(lost) l)) HAVING count(*) > 0),
    CASE WHEN lost <> '{}' THEN format('ALTER TABLE %s SET (%s);', relation, array_to_string(lost, ', ')) END)
$$;

-- How what the migrations have not made goes.
CREATE FUNCTION sluice_private.remove_sql(kind text, name text, relation text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT CASE kind
    WHEN 'index' THEN format('DROP INDEX CONCURRENTLY %s;', name)
    WHEN 'column' THEN format('ALTER TABLE %s DROP COLUMN %s;', relation, substr(name, length(relation) + 2))
    WHEN 'constraint' THEN format('ALTER TABLE %s DROP CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN 'foreign key' THEN format('ALTER TABLE %s DROP CONSTRAINT %s;', relation, substr(name, length(relation) + 2))
    WHEN 'row security' THEN format('ALTER TABLE %s DISABLE ROW LEVEL SECURITY;', relation)
    ELSE format('DROP %s %s ON %s;', upper(kind), substr(name, length(relation) + 2), relation) END
$$;

-- What is missing, changed, broken or added. What belongs to a table that is missing is not listed by itself. Where
-- another version of the server has written the definition, a difference is unknown; storage settings and columns have
-- no words of the server's own.
CREATE FUNCTION sluice_private.doctor_schema(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH compared AS MATERIALIZED (
    SELECT coalesce(m.kind, c.kind) AS kind, coalesce(m.name, c.name) AS name,
           coalesce(m.relation, c.relation) AS relation, m.definition AS made, c.definition AS now, c.broken,
           CASE WHEN m.definition <> c.definition
             THEN sluice_private.flat_definition(m.definition) <> sluice_private.flat_definition(c.definition) ELSE false END AS differs,
           m.server <> current_setting('server_version_num')::integer / 10000
             AND m.kind <> ALL ('{storage,column,table}') AS by_other_server
    FROM sluice.object_definition m FULL JOIN sluice_private.catalog() c ON c.kind = m.kind AND c.name = m.name
    WHERE EXISTS (SELECT FROM sluice.object_definition)
  )
  SELECT 'schema.missing', 'error', c.kind || ' ' || c.name,
         format('The migration made the %s %s, and it is not there', c.kind, c.name),
         sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, NULL)
  FROM compared c
  WHERE c.now IS NULL AND NOT EXISTS (
    SELECT FROM compared t WHERE t.kind = 'table' AND t.name = c.relation AND t.now IS NULL
  )
  UNION ALL
  SELECT 'schema.changed', 'warning', 'storage ' || c.name,
         format('The storage settings of %s are not as the migration made them: expected %s, found %s', c.name,
           coalesce(nullif(array_to_string(o.lost, ', '), ''), 'none'),
           coalesce(nullif(array_to_string(o.added, ', '), ''), 'none')),
         sluice_private.restore_storage(c.name, o.lost, o.added)
  FROM compared c CROSS JOIN LATERAL (
    SELECT sluice_private.other_settings(c.made, c.now) AS lost, sluice_private.other_settings(c.now, c.made) AS added
  ) o
  WHERE c.kind = 'storage' AND c.now <> c.made
  UNION ALL
  SELECT 'schema.changed', 'unknown', sluice_private.counted(count(*), 'definition'),
         format('Another version of the server has noted them, and they cannot be compared: %s',
           string_agg(c.kind || ' ' || c.name, ', ' ORDER BY c.kind, c.name)),
         'SELECT sluice_private.note_definitions(); -- once, if the server was upgraded and no other finding schema.* is left'
  FROM compared c WHERE c.kind <> 'storage' AND c.differs AND c.by_other_server HAVING count(*) > 0
  UNION ALL
  SELECT 'schema.changed', 'error', c.kind || ' ' || c.name,
         CASE WHEN c.kind IN ('function', 'view')
                THEN format('The %s %s is not as the migration made it', c.kind, c.name)
              ELSE format('The %s %s is not as the migration made it: expected %s, found %s', c.kind, c.name,
                coalesce(nullif(left(c.made, 300), ''), 'none'), coalesce(nullif(left(c.now, 300), ''), 'none')) END,
         CASE c.kind WHEN 'index' THEN concat_ws(' ', format('DROP INDEX CONCURRENTLY %s;', c.name),
                sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, NULL))
              WHEN 'trigger' THEN concat_ws(' ',
                format('DROP TRIGGER %s ON %s;', substr(c.name, length(c.relation) + 2), c.relation), c.made || ';')
              ELSE 'npx sluice migrate --print # has its definition' END
  FROM compared c WHERE c.kind <> 'storage' AND c.differs AND NOT c.by_other_server
  UNION ALL
  SELECT 'schema.' || c.broken, 'error', c.kind || ' ' || c.name,
         CASE c.broken WHEN 'disabled' THEN format('The trigger %s does not fire', c.name)
           ELSE format('The %s %s is not valid, so the server does not use it', c.kind, c.name) END,
         sluice_private.restore_sql(c.kind, c.name, c.relation, c.made, c.broken)
  FROM compared c WHERE c.broken IS NOT NULL AND c.made IS NOT NULL
  UNION ALL
  SELECT 'schema.added', 'warning', c.kind || ' ' || c.name,
         format('The %s %s is on a table of Sluice, and no migration made it%s', c.kind, c.name,
           CASE WHEN c.kind IN ('trigger', 'rule', 'row security') THEN ': it can keep rows from being written'
                WHEN c.kind = 'foreign key' THEN ': a row that refers to a message locks it, and claims pass it over'
                WHEN c.kind = 'index' THEN ': every message is written to it' ELSE '' END),
         sluice_private.remove_sql(c.kind, c.name, c.relation)
  FROM compared c
  WHERE c.made IS NULL AND c.kind <> ALL ('{table,storage,view,type,function}') AND NOT EXISTS (
    SELECT FROM compared t WHERE t.kind = 'table' AND t.name = c.relation AND t.made IS NULL
  )
  UNION ALL
  SELECT 'schema.definitions', 'unknown', 'table sluice.object_definition',
         'It has no rows, so what the migration has made cannot be compared with what there is',
         'npx sluice migrate --print'
  WHERE NOT EXISTS (SELECT FROM sluice.object_definition)
$$;

-- Whose the objects are, who may run the functions that have the rights of their owner, and whether the roles have
-- theirs. The tables of streams and of the history belong to the owner too: maintenance drops them.
CREATE FUNCTION sluice_private.doctor_owner(open_for interval) RETURNS SETOF sluice_private.finding
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  WITH schema_owner AS (
    SELECT n.nspowner AS oid FROM pg_namespace n WHERE n.nspname = 'sluice_private'
  ), owned AS (
    SELECT CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END AS kind,
           c.oid::regclass::text AS name, c.relowner AS owner
    FROM pg_class c
    WHERE c.relnamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND (c.relkind IN ('r', 'p', 'v') OR c.relkind = 'S'
      -- A sequence of a column goes with its table.
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass
        AND d.deptype IN ('a', 'i')))
    UNION ALL
    SELECT 'FUNCTION', p.oid::regprocedure::text, p.proowner FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prokind = 'f'
  )
  SELECT 'schema.owner', 'error', lower(o.kind) || ' ' || o.name,
         format('The %s %s belongs to %s, and the schema to %s: it has other rights than what works with it',
           lower(o.kind), o.name, o.owner::regrole, s.oid::regrole),
         format('ALTER %s %s OWNER TO %s;', o.kind, o.name, s.oid::regrole)
  FROM owned o CROSS JOIN schema_owner s WHERE o.owner <> s.oid
  UNION ALL
  SELECT 'privileges.public', 'error', 'function ' || p.oid::regprocedure,
         format('Every login may call %s, which runs with the rights of its owner, %s', p.oid::regprocedure,
           p.proowner::regrole),
         format('REVOKE ALL ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure)
  FROM pg_proc p
  WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosecdef
    AND has_function_privilege('public', p.oid, 'EXECUTE')
  UNION ALL
  -- sluice_admin reads every view, and one of the roles may call each function. Where it has no right on the schema,
  -- the roles are of another database.
  SELECT 'privileges.roles', 'warning', 'roles of Sluice',
         format('No role has the rights on %s that "sluice roles" grants: a migration has made it since, or it was '
           'revoked',
           string_agg(l.name, ', ' ORDER BY l.name)), 'npx sluice roles'
  FROM (
    SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_roles r ON r.rolname = 'sluice_admin'
    WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind = 'v'
      AND NOT has_table_privilege(r.oid, c.oid, 'SELECT')
    UNION ALL
    SELECT p.oid::regprocedure::text FROM pg_proc p
    WHERE p.pronamespace = 'sluice'::regnamespace AND NOT EXISTS (
      SELECT FROM pg_roles r
      WHERE r.rolname IN ('sluice_producer', 'sluice_worker', 'sluice_operator', 'sluice_admin', 'sluice_reader',
          'sluice_claimer')
        AND has_function_privilege(r.oid, p.oid, 'EXECUTE')
    )
  ) l
  WHERE EXISTS (
    SELECT FROM pg_roles r WHERE r.rolname = 'sluice_admin' AND has_schema_privilege(r.oid, 'sluice', 'USAGE')
  )
  HAVING count(*) > 0
$$;
