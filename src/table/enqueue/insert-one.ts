import { type Execute, type Row, statement } from '../statement.ts'
import { type InsertRow, isPlain } from './insert-row.ts'

/**
 * Inserts one row; its id is NULL if the table did not take it. A function inserts it, because the server keeps the
 * plans of a function for the session. Our statements have no names on the application's connections, so the server
 * would plan each one anew, which took longer than the INSERT itself.
 */
export function insertOne(execute: Execute, queue: string, row: InsertRow): Promise<readonly Row[]> {
  return isPlain(row) ? execute(INSERT_PLAIN, [queue, row.payload]) : execute(INSERT_ONE, rowParams(queue, row))
}

/** The columns of one row as parameters, in the order of `sluice_private.insert_message`. */
export function rowParams(queue: string, row: InsertRow): readonly (string | null)[] {
  return [
    queue,
    row.payload,
    row.headers,
    row.type,
    String(row.schemaVersion),
    row.orderingKey,
    String(row.priority),
    row.dueAt,
    numeric(row.delayMs),
    numeric(row.maxAttempts),
    numeric(row.ttlMs),
    row.retryPolicy,
    numeric(row.leaseMs),
    row.tenant,
  ]
}

export function numeric(value: number | null): string | null {
  return value === null ? null : String(value)
}

const INSERT_PLAIN = statement(
  'insert_plain',
  `
SELECT sluice_private.insert_plain($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb)::pg_catalog.text AS id`,
  ['id'],
)

/** The arguments that {@link rowParams} are for. Texts are the only parameters that all accepted clients send alike. */
export const ROW_ARGUMENTS = `
  $1::pg_catalog.text,
  $2::pg_catalog.text::pg_catalog.jsonb,
  $3::pg_catalog.text::pg_catalog.jsonb,
  $4::pg_catalog.text,
  $5::pg_catalog.text::integer,
  $6::pg_catalog.text,
  $7::pg_catalog.text::smallint,
  $8::pg_catalog.text::pg_catalog.timestamptz,
  $9::pg_catalog.text::double precision,
  $10::pg_catalog.text::integer,
  $11::pg_catalog.text::double precision,
  $12::pg_catalog.text,
  $13::pg_catalog.text::integer,
  $14::pg_catalog.text`

const INSERT_ONE = statement(
  'insert_one',
  `
SELECT sluice_private.insert_message(${ROW_ARGUMENTS},
  NULL,
  NULL
)::pg_catalog.text AS id`,
  ['id'],
)
