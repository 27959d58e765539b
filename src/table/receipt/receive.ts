import { type Execute, numberOf, statement, textOf } from '../statement.ts'

/** What tells a message from outside of the database from all others. */
export interface ReceiptKey {
  readonly source: string
  readonly id: string
}

/** A received message that can never be enqueued, as a dead letter: JSON, JSON, why, and what it would be enqueued with. */
export interface BuriedMessage {
  readonly payload: string
  readonly headers: string
  readonly reason: string
  readonly type: string | null
  readonly orderingKey: string | null
  readonly schemaVersion: number
}

/**
 * Writes a receipt for each message, and returns the places, in the list, of those that had none. Another transaction that
 * writes one of them is waited for.
 */
export async function writeReceipts(
  execute: Execute,
  queue: string,
  keys: readonly ReceiptKey[],
  retentionMs: number,
): Promise<readonly number[]> {
  const rows = await execute(RECEIVE, [queue, ...keyParams(keys), retentionMs])
  return rows.map((row) => numberOf(row, 'place'))
}

/** The sources and the ids, each as JSON. Of sources that are all the same only one, which the server takes for all. */
export function keyParams(keys: readonly ReceiptKey[]): readonly [string, string] {
  const first = keys[0]?.source
  const sources = keys.every(({ source }) => source === first) ? [first] : keys.map(({ source }) => source)
  return [JSON.stringify(sources), JSON.stringify(keys.map(({ id }) => id))]
}

/** Makes dead letters, and returns their ids in the same order. */
export async function buryReceived(
  execute: Execute,
  queue: string,
  messages: readonly BuriedMessage[],
): Promise<readonly string[]> {
  const given = messages.map(
    ({ payload, headers, ...labels }) =>
      `{"payload":${payload},"headers":${headers},"labels":${JSON.stringify(labels)}}`,
  )
  const rows = await execute(BURY, [queue, `[${given.join(',')}]`])
  return rows.map((row) => textOf(row, 'id'))
}

const RECEIVE = statement(
  'receive',
  `
SELECT (f.ordinal - 1)::integer AS place
FROM pg_catalog.unnest(
  sluice_private.receive($1::text, $2::text::jsonb, $3::text::jsonb, $4::double precision)
) WITH ORDINALITY AS f (is_new, ordinal)
WHERE f.is_new ORDER BY f.ordinal`,
)

const BURY = statement(
  'bury_received',
  'SELECT b AS id FROM sluice_private.bury_received($1::text, $2::text::jsonb) AS b',
  ['id'],
)
