import { contentColumns, contentOf, insertedHere } from '../inserted-here.ts'
import { type Execute, numberOf, statement, textOf } from '../statement.ts'

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
 * The events that the current transaction has appended so far, by stream, in order. Reads all streams whole, so it is for tests
 * only.
 */
export async function appendedHere(execute: Execute): Promise<readonly AppendedEvent[]> {
  return (await execute(APPENDED_HERE, [])).map((row) => ({
    stream: textOf(row, 'stream'),
    position: numberOf(row, 'position'),
    ...contentOf(row),
  }))
}

const APPENDED_HERE = statement(
  'appended_here',
  `
SELECT s.stream, e."position"::pg_catalog.text AS "position", ${contentColumns('e')}
FROM sluice.event e JOIN sluice.stream s ON s.id OPERATOR(pg_catalog.=) e.stream_id
WHERE ${insertedHere('e')}
ORDER BY s.id, e."position"`,
)
