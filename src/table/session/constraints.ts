import { type Execute, statement, textOf } from '../statement.ts'

const KINDS = ['none', 'deferred', 'immediate', 'named alone', 'namesakes'] as const

/**
 * Which deferrable constraints a database has, constraint triggers included: none; only ones that begin deferred, or
 * only ones that begin immediate; both, each with a name of its own; or both, with constraints of one name in one
 * schema of which some begin deferred and some do not.
 */
export type Deferrable = (typeof KINDS)[number]

/** Reads the whole catalog of constraints: 0.1 ms for a thousand. */
export async function readDeferrable(execute: Execute): Promise<Deferrable> {
  const [row] = await execute(READ_DEFERRABLE, [])
  return deferrableOf(row === undefined ? '' : textOf(row, 'deferrable'))
}

export function deferrableOf(text: string): Deferrable {
  const kind = KINDS.find((one) => one === text)
  if (kind === undefined) throw new TypeError(`deferrable: ${text}`)
  return kind
}

/** The {@link Deferrable} as an SQL expression. */
export const DEFERRABLE = `
       CASE WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.condeferrable) THEN 'none'
            WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.condeferrable AND NOT c.condeferred) THEN 'deferred'
            WHEN NOT EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.condeferred) THEN 'immediate'
            WHEN EXISTS (
              SELECT FROM pg_catalog.pg_constraint c GROUP BY c.connamespace, c.conname
              HAVING pg_catalog.bool_or(c.condeferred) AND NOT pg_catalog.bool_and(c.condeferred)
            ) THEN 'namesakes'
            ELSE 'named alone' END`

const READ_DEFERRABLE = statement('deferrable', `SELECT${DEFERRABLE} AS deferrable`)

/**
 * Sets each deferrable constraint back to how it was declared. SET CONSTRAINTS lasts until the end of the transaction,
 * and no command undoes it. This reads the catalog, so it is sent only where one SET CONSTRAINTS ALL is not enough.
 *
 * The name of a constraint is unique only within its table. SET CONSTRAINTS affects every constraint of that name in
 * the schema, and fails if it defers one that is not deferrable. So constraints of one name stay as they are if only
 * some of them begin deferred.
 */
export const CONSTRAINTS_AS_DECLARED = `DO $sluice$
DECLARE
  command pg_catalog.text;
BEGIN
  FOR command IN
    SELECT pg_catalog.format('SET CONSTRAINTS %I.%I %s', n.nspname, c.conname, CASE WHEN pg_catalog.bool_and(c.condeferred) THEN 'DEFERRED' ELSE 'IMMEDIATE' END)
    FROM pg_catalog.pg_constraint c
    JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) c.connamespace
    WHERE pg_catalog.has_schema_privilege(n.oid, 'USAGE')
    GROUP BY n.nspname, c.conname
    HAVING pg_catalog.bool_or(c.condeferrable) AND (pg_catalog.bool_and(c.condeferred) OR NOT pg_catalog.bool_or(c.condeferred))
  LOOP
    EXECUTE command;
  END LOOP;
END
$sluice$`
