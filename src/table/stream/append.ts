import type { RowLabels } from '../enqueue/insert-row.ts'
import { idOf, idsOf } from '../enqueue/insert-row.ts'
import { requiringRows, rowsMissing } from '../rows-missing.ts'
import { type Execute, statement } from '../statement.ts'
import { naming } from './stream-errors.ts'

/** One validated event to append: JSON as text. */
export interface EventRow extends RowLabels {
  readonly payload: string
}

/**
 * Appends one event in whatever transaction `execute` runs in, and returns its position.
 *
 * @throws SluiceError STREAM_UNKNOWN; ROWS_MISSING if the table has not taken it
 */
export async function appendEvent(execute: Execute, stream: string, row: EventRow): Promise<number> {
  const { payload, orderingKey, type, schemaVersion, headers } = row
  const params = [stream, payload, orderingKey, type, String(schemaVersion), headers]
  const [appended] = await naming(requiringRows(execute(APPEND, params)), stream)
  if (appended === undefined) throw rowsMissing(`sluice.append: expected a position in stream "${stream}"`)
  return Number(idOf(appended))
}

/**
 * Appends events in one statement, and returns their positions in the order of the rows.
 *
 * @throws SluiceError STREAM_UNKNOWN; ROWS_MISSING if the table has not taken all of them
 */
export async function appendEvents(
  execute: Execute,
  stream: string,
  rows: readonly EventRow[],
): Promise<readonly number[]> {
  const [row] = rows
  if (row !== undefined && rows.length === 1) return [await appendEvent(execute, stream, row)]
  const payloads = rows.map(({ payload }) => payload).join(',')
  const params = [stream, `[${payloads}]`, optionsOf(rows)]
  const [appended] = await naming(requiringRows(execute(APPEND_MANY, params)), stream)
  if (appended === undefined || Object.values(appended)[0] === null)
    throw rowsMissing(`sluice.append_many: expected positions in stream "${stream}"`)
  return idsOf(appended).map(Number)
}

/** The columns besides the payload; none in the common case, which halves what the server has to parse. */
function optionsOf(rows: readonly EventRow[]): string {
  return rows.every(isPlain) ? '[]' : `[${rows.map((row) => (isPlain(row) ? '{}' : encodeOptions(row))).join(',')}]`
}

function isPlain({ orderingKey, type, schemaVersion, headers }: EventRow): boolean {
  return orderingKey === null && type === null && schemaVersion === 1 && headers === '{}'
}

/** The headers are JSON already. */
function encodeOptions({ payload, headers, ...others }: EventRow): string {
  return `{"headers":${headers},${JSON.stringify(others).slice(1)}`
}

// By functions, because no insert may pass the lock of open appends, which has to be taken before a position is drawn;
// and the server plans them once in a session. They go by the primary key of sluice.stream, and by tuple routing to the one
// segment of the position: no other stream's tables are locked.
const APPEND = statement(
  'append',
  `
SELECT sluice.append(
  $1::pg_catalog.text,
  $2::pg_catalog.text::pg_catalog.jsonb,
  $3::pg_catalog.text,
  $4::pg_catalog.text,
  $5::pg_catalog.text::integer,
  $6::pg_catalog.text::pg_catalog.jsonb
)::pg_catalog.text AS position`,
  ['position'],
)

// The positions are one text: 1,000 rows would take a tenth of Node's processor time for an append of 1,000 events.
const APPEND_MANY = statement(
  'append_many',
  `
SELECT pg_catalog.string_agg(a.position::pg_catalog.text, ',') AS positions
FROM sluice.append_many(
  $1::pg_catalog.text, $2::pg_catalog.text::pg_catalog.jsonb, $3::pg_catalog.text::pg_catalog.jsonb
) AS a (position)`,
  ['positions'],
)
