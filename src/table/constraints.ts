import { type Execute, statement, textOf } from './statement.ts'

const KINDS = ['none', 'deferred', 'immediate', 'named alone', 'namesakes'] as const

/**
 * What a database has of constraints that a transaction may defer, constraint triggers among them: none; some that all
 * begin deferred, or all immediate; both, of which each can be named alone; or both, with namesakes in a schema that
 * begin otherwise.
 */
export type Deferrable = (typeof KINDS)[number]

/** Reads the catalog of constraints through: 0.1 ms for a thousand. */
export async function readDeferrable(execute: Execute): Promise<Deferrable> {
  const [row] = await execute(READ_DEFERRABLE, [])
  return deferrableOf(row === undefined ? '' : textOf(row, 'deferrable'))
}

export function deferrableOf(text: string): Deferrable {
  const kind = KINDS.find((one) => one === text)
  if (kind === undefined) throw new TypeError(`deferrable: ${text}`)
  return kind
}

/** A {@link Deferrable}, as an expression. */
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
 * and no command takes it back. It reads the catalog, so it is sent only where one SET CONSTRAINTS ALL is not enough.
 *
 * A constraint's name is unique within its table only. SET CONSTRAINTS affects every constraint of that name in the
 * schema, and fails if it defers one that is not deferrable. Those of one name of which not all begin deferred, or
 * none, stay as they are.
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
