import type { ClientConfig } from 'pg'

/** Runs one statement, or several without parameters. */
export type RunSql = (text: string, params?: readonly unknown[]) => Promise<unknown>

/**
 * Gives a migrated database a clock that can be stepped: `clock.clock_timestamp()` is the real time and an offset from a
 * table of one row. The defaults, functions and views of schema sluice are moved over to it; the statements of the
 * library follow on connections made with {@link onSqlClock}. A step shows in the next call on every connection, also
 * in the middle of a transaction, as it does when a machine's clock is set. `now()` and the process keep real time. A
 * Sluice on any other connection has both clocks: it enqueues single messages by this one, and claims by the real one.
 */
export async function installSqlClock(run: RunSql): Promise<void> {
  await run(INSTALL)
}

/** Moves the clock, back if negative. */
export async function stepSqlClock(run: RunSql, ms: number): Promise<void> {
  await run(`UPDATE clock.shift SET by = by + $1::float8 * interval '1 millisecond'`, [ms])
}

/** A connection whose unqualified `clock_timestamp()` is the database's settable one. */
export function onSqlClock(connectionString: string): ClientConfig {
  return { connectionString, options: '-c search_path=clock,pg_catalog,public' }
}

// The definitions are printed under a search path without clock and sluice, so that they name the server's own function
// plainly and everything of ours in full.
const INSTALL = `
CREATE SCHEMA clock;
CREATE TABLE clock.shift (by interval NOT NULL);
INSERT INTO clock.shift VALUES (interval '0');
CREATE FUNCTION clock.clock_timestamp() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $clock$
BEGIN
  RETURN pg_catalog.clock_timestamp() + (SELECT s.by FROM clock.shift s);
END
$clock$;

DO $install$
DECLARE
  stock CONSTANT text := '(\\mpg_catalog\\.)?\\mclock_timestamp\\(\\)';
  ours CONSTANT text := 'clock.clock_timestamp()';
  statement text;
BEGIN
  SET LOCAL search_path = pg_catalog;
  FOR statement IN
    SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s',
                  d.adrelid::regclass, a.attname, regexp_replace(pg_get_expr(d.adbin, d.adrelid), stock, ours, 'g'))
    FROM pg_attrdef d
    JOIN pg_attribute a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
    JOIN pg_class c ON c.oid = d.adrelid AND c.relnamespace = 'sluice'::regnamespace
    WHERE pg_get_expr(d.adbin, d.adrelid) ~ stock
    UNION ALL
    SELECT regexp_replace(pg_get_functiondef(p.oid), stock, ours, 'g')
    FROM pg_proc p
    WHERE p.pronamespace IN ('sluice'::regnamespace, 'sluice_private'::regnamespace) AND p.prosrc ~ stock
    UNION ALL
    SELECT format('CREATE OR REPLACE VIEW %s AS %s', v.oid::regclass, regexp_replace(pg_get_viewdef(v.oid), stock, ours, 'g'))
    FROM pg_class v
    WHERE v.relnamespace = 'sluice'::regnamespace AND v.relkind = 'v' AND pg_get_viewdef(v.oid) ~ stock
  LOOP
    EXECUTE statement;
  END LOOP;
END
$install$`
