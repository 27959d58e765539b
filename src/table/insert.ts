import { type Execute, statement, textOf } from './statement.ts'

/** One row to insert, validated: JSON as text, times for the database's clock to resolve. */
export interface InsertRow {
  readonly payload: string
  readonly headers: string
  readonly type: string | null
  readonly schemaVersion: number
  readonly orderingKey: string | null
  readonly priority: number
  /** Due this long after the insert, by the database's clock. */
  readonly delayMs: number
  /** Or due at this instant (ISO 8601), if it is later. */
  readonly deliverAt: string | null
  readonly maxAttempts: number | null
}

/**
 * Inserts rows into a queue in one statement, in whatever transaction `execute` runs in, and returns their ids in
 * the order of the rows.
 *
 * The rows travel as one JSON parameter, because that is the only bulk form that all accepted clients send alike;
 * payloads and headers are JSON texts inside it, so that their numbers and key order are not read twice. The sort
 * by `ordinal` is what makes the ids ascend in the order of the input. The insert trigger does the wake-up.
 */
export async function insertMessages(
  execute: Execute,
  queue: string,
  rows: readonly InsertRow[],
): Promise<readonly string[]> {
  const inserted = await execute(INSERT, [queue, JSON.stringify(rows)])
  return inserted.map((row) => textOf(row, 'id'))
}

const INSERT = statement(
  'insert',
  `
INSERT INTO sluice.message
  (queue, payload, headers, type, schema_version, ordering_key, priority, due_at, max_attempts)
SELECT $1::text, r.payload::jsonb, r.headers::jsonb, r.type, r."schemaVersion", r."orderingKey", r.priority,
       greatest(r."deliverAt", clock_timestamp() + r."delayMs" * interval '1 millisecond'), r."maxAttempts"
FROM ROWS FROM (
  jsonb_to_recordset($2::text::jsonb) AS (
    payload text, headers text, type text, "schemaVersion" integer, "orderingKey" text, priority smallint,
    "delayMs" double precision, "deliverAt" timestamptz, "maxAttempts" integer
  )
) WITH ORDINALITY AS r (payload, headers, type, "schemaVersion", "orderingKey", priority, "delayMs", "deliverAt", "maxAttempts", ordinal)
ORDER BY r.ordinal
RETURNING id::text AS id`,
)
