import { type MessageOption, OPTIONS } from '../../message-options.ts'
import { type Execute, type Row, statement } from '../statement.ts'
import type { InsertRow } from './insert-row.ts'

/**
 * Inserts one row; its id is NULL if the table did not take it. A function inserts it, because the server keeps the
 * plans of a function for the session. Our statements have no names on the application's connections, so the server
 * would plan each one anew, which took longer than the INSERT itself.
 */
export function insertOne(execute: Execute, queue: string, row: InsertRow): Promise<readonly Row[]> {
  return row.isPlain ? execute(INSERT_PLAIN, [queue, row.payload]) : execute(INSERT_ONE, rowParams(queue, row))
}

/** The columns of one row as parameters, in the order of `sluice_private.insert_message`. */
export function rowParams(queue: string, row: InsertRow): readonly (string | null)[] {
  const params: (string | null)[] = [queue, row.payload]
  for (const { rowName } of OPTIONS) params.push(numeric(row[rowName]))
  return params
}

/** As text, like every parameter: all accepted clients send texts alike. */
export function numeric(value: number | string | null): string | null {
  return value === null ? null : String(value)
}

const INSERT_PLAIN = statement(
  'insert_plain',
  `
SELECT sluice_private.insert_plain($1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb)::pg_catalog.text AS id`,
  ['id'],
)

/** The type in SQL of the value of an option in a row. Types are named in full: a temporary table is a type as well. */
export function sqlTypeOf(option: MessageOption): string {
  switch (option.kind) {
    case 'count':
    case 'time':
      return option.sql
    case 'object':
      return 'pg_catalog.jsonb'
    case 'instant':
      return 'pg_catalog.timestamptz'
    default:
      return 'pg_catalog.text'
  }
}

/** A parameter as a value of the option. */
function parameterOf(number: number, option: MessageOption): string {
  const type = sqlTypeOf(option)
  const text = `$${number}::pg_catalog.text`
  return type === 'pg_catalog.text' ? text : `${text}::${type}`
}

/** The arguments that {@link rowParams} are for. */
export const ROW_ARGUMENTS = `
  $1::pg_catalog.text,
  $2::pg_catalog.text::pg_catalog.jsonb,
  ${OPTIONS.map(({ option }, at) => parameterOf(at + 3, option)).join(',\n  ')}`

/** The number of the parameter behind them. */
export const NEXT_PARAMETER = OPTIONS.length + 3

const INSERT_ONE = statement(
  'insert_one',
  `
SELECT sluice_private.insert_message(${ROW_ARGUMENTS},
  NULL,
  NULL
)::pg_catalog.text AS id`,
  ['id'],
)
