import { type Execute, numberOf, type Row, statement, textOf, textOrNull } from '../statement.ts'

/** An event as it was appended. */
export interface AppendedEvent {
  /** The name of its stream. */
  readonly stream: string
  /** As `append` returned it. */
  readonly position: number
  /** Null if none was given. */
  readonly type: string | null
  /** From 1. */
  readonly schemaVersion: number
  /** As JSON gives it back. */
  readonly payload: unknown
  /** An empty object if none were given. */
  readonly headers: unknown
  /** Null if none was given. */
  readonly orderingKey: string | null
}

/**
 * The events that the current transaction has appended so far, by stream, in order. If a visible row was inserted by a
 * transaction that is still in progress, that transaction is ours, or a savepoint of it. Reads all streams whole, so it is for
 * tests only.
 */
export async function appendedHere(execute: Execute): Promise<readonly AppendedEvent[]> {
  return (await execute(APPENDED_HERE, [])).map(toAppended)
}

const APPENDED_HERE = statement(
  'appended_here',
  `
SELECT s.stream, e."position"::pg_catalog.text AS "position", e.type, e.schema_version,
       e.payload::pg_catalog.text AS payload, e.headers::pg_catalog.text AS headers, e.ordering_key
FROM sluice.event e JOIN sluice.stream s ON s.id OPERATOR(pg_catalog.=) e.stream_id
WHERE pg_xact_status(
        ((pg_current_xact_id()::pg_catalog.text::bigint >> 32 << 32) + e.xmin::pg_catalog.text::bigint)
          ::pg_catalog.text::pg_catalog.xid8
      ) = 'in progress'
ORDER BY s.id, e."position"`,
)

function toAppended(row: Row): AppendedEvent {
  return {
    stream: textOf(row, 'stream'),
    position: numberOf(row, 'position'),
    type: textOrNull(row, 'type'),
    schemaVersion: numberOf(row, 'schema_version'),
    payload: JSON.parse(textOf(row, 'payload')),
    headers: JSON.parse(textOf(row, 'headers')),
    orderingKey: textOrNull(row, 'ordering_key'),
  }
}
