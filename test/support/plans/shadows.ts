import type { TestDatabase } from '../servers/database.ts'

/** What a shadow says when it is called. */
export const SHADOW = 'a shadow was called'

/** The names of functions that an SQL string calls without saying where they are. */
export function calledNames(sql: string): readonly string[] {
  return [...new Set([...sql.matchAll(/(?<![\w.])([a-z_]+)\(/g)].map(([, name = '']) => name))]
}

/**
 * Fills a schema with what a hostile neighbour would put there: for each of these functions of pg_catalog one that takes
 * the same, and those that fit other types better; the same for operators; and tables and types with names of ours.
 */
export async function castShadows(
  { sql }: Pick<TestDatabase, 'sql'>,
  schema: string,
  names: readonly string[],
): Promise<void> {
  await sql(`
    SET check_function_bodies = off;
    DO $do$
    DECLARE
      -- Each by the one name that format_type has for it.
      types text[] := '{smallint,integer,bigint,double precision,numeric,text,varchar,name,oid,timestamptz,timestamp,interval,jsonb,
                        boolean,regclass,smallint[],integer[],bigint[],text[],boolean[]}'::regtype[]::text[];
      body text := $$ LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''${SHADOW}''; END' $$;
      f record; l text; r text; o text;
    BEGIN
      FOR f IN
        WITH meant AS (
          SELECT p.proname, p.pronargs, p.provariadic, p.proargtypes::oid[] AS args FROM pg_proc p
          WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.proname = ANY ('{${names.join()}}')
        )
        SELECT m.proname, args.types FROM meant m CROSS JOIN LATERAL (
          SELECT one AS types FROM unnest(types) one WHERE m.pronargs = 1 OR m.provariadic <> 0
          UNION ALL SELECT one || ', ' || two FROM unnest(types) one, unnest(types) two WHERE m.pronargs = 2 OR m.provariadic <> 0
          UNION ALL SELECT (SELECT string_agg(CASE WHEN a.at = other.at THEN one ELSE format_type(a.type, NULL) END, ', ' ORDER BY a.at)
                            FROM unnest(m.args) WITH ORDINALITY AS a (type, at))
                    FROM unnest(types) one, generate_series(1, m.pronargs) AS other (at) WHERE m.pronargs > 2
          UNION ALL SELECT coalesce((SELECT string_agg(format_type(a.type, NULL), ', ' ORDER BY a.at)
                                     FROM unnest(m.args) WITH ORDINALITY AS a (type, at)), '')
        ) args
        WHERE args.types !~ '"(any|char)"|internal'
        GROUP BY 1, 2
      LOOP
        EXECUTE format('CREATE FUNCTION ${schema}.%I(%s) RETURNS %s %s', f.proname, f.types,
                       'bigint', body);
      END LOOP;
      FOREACH l IN ARRAY types LOOP
        FOREACH r IN ARRAY types LOOP
          EXECUTE format('CREATE FUNCTION ${schema}.shadow(%s, %s) RETURNS boolean %s', l, r, body);
          FOREACH o IN ARRAY '{=,<>,<,<=,>,>=,+,-,*,/,&,|,<<,>>,||,->,->>,@>}'::text[] LOOP
            EXECUTE format('CREATE OPERATOR ${schema}.%s (FUNCTION = ${schema}.shadow, LEFTARG = %s, RIGHTARG = %s)', o, l, r);
          END LOOP;
        END LOOP;
      END LOOP;
    END $do$`)
}
