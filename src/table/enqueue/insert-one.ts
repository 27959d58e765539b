import { type Execute, type Row, statement } from '../statement.ts'
import { type InsertRow, isPlain } from './insert-row.ts'

/**
 * Inserts one row; its id is NULL if the table did not take it. A function inserts it, because the server keeps the
 * plans of a function for the session. Our statements have no names on the application's connections, so the server
 * would plan each one anew, which took longer than the INSERT itself.
 */
export function insertOne(execute: Execute, queue: string, row: InsertRow): Promise<readonly Row[]> {
  return isPlain(row)
    ? execute(INSERT_PLAIN, [queue, row.payload])
    : execute(INSERT_ONE, [
        queue,
        row.payload,
        row.headers,
        row.type,
        String(row.schemaVersion),
        row.orderingKey,
        String(row.priority),
        row.dueAt,
        String(row.delayMs),
        row.maxAttempts === null ? null : String(row.maxAttempts),
      ])
}

const INSERT_PLAIN = statement(
  'insert_plain',
  `
SELECT sluice.insert_plain($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb)::pg_catalog.text AS id`,
  ['id'],
)

// Texts are the only parameters that all accepted clients send alike.
const INSERT_ONE = statement(
  'insert_one',
  `
SELECT sluice.insert_message(
  $1::pg_catalog.text,
  $2::pg_catalog.text::pg_catalog.jsonb,
  $3::pg_catalog.text::pg_catalog.jsonb,
  $4::pg_catalog.text,
  $5::pg_catalog.text::integer,
  $6::pg_catalog.text,
  $7::pg_catalog.text::smallint,
  $8::pg_catalog.text::pg_catalog.timestamptz,
  $9::pg_catalog.text::double precision,
  $10::pg_catalog.text::integer
)::pg_catalog.text AS id`,
  ['id'],
)
