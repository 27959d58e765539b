import { separated } from '../../basics/words/words.ts'
import type { SluiceError } from '../../errors.ts'
import { OPTIONS } from '../../message-options.ts'
import { rowsMissing } from '../rows-missing.ts'
import { type Execute, type Row, statement } from '../statement.ts'
import { insertOne, sqlTypeOf } from './insert-one.ts'
import { type InsertRow, idOf } from './insert-row.ts'

/**
 * Inserts rows into a queue in one statement, in whatever transaction `execute` runs in, and returns their ids in
 * the order of the rows.
 *
 * Texts are the only parameters that all accepted clients send alike. The payloads are one JSON array, in which each is
 * written as it was encoded, so nothing escapes it and the server parses it once. The other columns are a second array,
 * of objects. It is empty if all rows have the table's defaults: of two set-returning functions, the shorter one is
 * filled up with NULL. Elements taken as jsonb keep a payload of null; a recordset would make it NULL.
 *
 * The sort by `ordinal` makes the ids ascend in the order of the input, because they are drawn above it. It finds the
 * rows sorted already: 10 µs for a thousand. The insert trigger wakes sleepers.
 *
 * The transaction gets its number before it draws an id. The server would assign it with the first row, a moment later,
 * and a slot's floor that is computed in that moment would not know of a lower id in another transaction.
 *
 * @throws SluiceError ROWS_MISSING if the table has not taken all of them, for example because of a trigger.
 */
export async function insertMessages(
  execute: Execute,
  queue: string,
  rows: readonly InsertRow[],
): Promise<readonly string[]> {
  const [row] = rows
  if (row !== undefined && rows.length === 1) return [await insertMessage(execute, queue, row)]
  const inserted = await insertMany(execute, queue, rows)
  if (inserted.length !== rows.length) throw notTaken(queue, rows.length, inserted.length)
  return inserted.map(idOf)
}

/**
 * Inserts one row into a queue, and returns its id.
 *
 * @throws SluiceError ROWS_MISSING if the table has not taken it
 */
export async function insertMessage(execute: Execute, queue: string, row: InsertRow): Promise<string> {
  const [inserted] = await insertOne(execute, queue, row)
  // A function that inserts nothing returns NULL.
  if (inserted === undefined || Object.values(inserted)[0] === null) throw notTaken(queue, 1, 0)
  return idOf(inserted)
}

export function notTaken(queue: string, given: number, taken: number): SluiceError {
  return rowsMissing(`sluice.message: expected to take ${given} messages for queue "${queue}", took ${taken}`)
}

function insertMany(execute: Execute, queue: string, rows: readonly InsertRow[]): Promise<readonly Row[]> {
  return execute(INSERT, insertParams(queue, rows))
}

/** The parameters of {@link insertSql}. */
export function insertParams(queue: string, rows: readonly InsertRow[]): readonly [string, string, string] {
  const payloads = rows.map(({ payload }) => payload).join(',')
  return [queue, `[${payloads}]`, optionsOf(rows)]
}

/** The columns besides the payload; none in the common case, which halves what the server has to parse. */
function optionsOf(rows: readonly InsertRow[]): string {
  return rows.every((row) => row.isPlain)
    ? '[]'
    : `[${rows.map((row) => (row.isPlain ? '{}' : encodeOptions(row))).join(',')}]`
}

/** The headers are JSON already. */
function encodeOptions({ payload, headers, dedupe, isPlain, ...others }: InsertRow): string {
  return `{"headers":${headers},${JSON.stringify(others).slice(1)}`
}

const STORED = OPTIONS.filter(({ option }) => option.computed !== true)

function columnOf({ rowName }: Option): string {
  return separated(rowName, '_')
}

/** An element of the second array that is not there has NULL for all of them. */
function storedOf({ rowName, option }: Option): string {
  const { byDefault } = option
  if (byDefault === undefined) return `r."${rowName}"`
  return `coalesce(r."${rowName}", '${byDefault}'::${sqlTypeOf(option)})`
}

type Option = (typeof OPTIONS)[number]

/**
 * Inserts the rows of `$1`, `$2` and `$3`, and returns their ids.
 *
 * @param joined joins the rows `r`, of which `ordinal` counts from 1, with what chooses among them
 */
export function insertSql(joined: string): string {
  return `
INSERT INTO sluice.message (queue, payload, due_at, expires_at, ${STORED.map(columnOf).join(', ')})
SELECT $1::pg_catalog.text, r.payload, r.first_due_at,
       r.first_due_at + coalesce(r."ttlMs", r.queue_ttl_ms) * interval '1 millisecond',
       ${STORED.map(storedOf).join(', ')}
FROM (
SELECT r.*, q.ttl_ms AS queue_ttl_ms, sluice_private.first_due_at(r."dueAt", r."delayMs", q.delay_ms) AS first_due_at
FROM ROWS FROM (
  jsonb_array_elements($2::pg_catalog.text::pg_catalog.jsonb),
  jsonb_to_recordset($3::pg_catalog.text::pg_catalog.jsonb) AS (
    ${OPTIONS.map(({ rowName, option }) => `"${rowName}" ${sqlTypeOf(option)}`).join(', ')}
  )
) WITH ORDINALITY AS r (payload, ${OPTIONS.map(({ rowName }) => `"${rowName}"`).join(', ')}, ordinal)
CROSS JOIN sluice_private.queue_defaults($1::pg_catalog.text) AS q
${joined}
WHERE pg_catalog.pg_current_xact_id() IS NOT NULL
  AND (q.payload_limit_bytes IS NULL OR sluice_private.check_payload_bytes(r.payload, q.payload_limit_bytes) IS NOT NULL)
ORDER BY r.ordinal
) r
RETURNING id::pg_catalog.text AS id`
}

const INSERT = statement('insert', insertSql(''), ['id'])
