import { insertParams, insertSql } from '../enqueue/insert.ts'
import type { InsertRow } from '../enqueue/insert-row.ts'
import { requiringRows } from '../rows-missing.ts'
import { type Execute, only, statement, textOrNull } from '../statement.ts'
import { keyParams, type ReceiptKey } from './receive.ts'

/** A received message: its key, and what it is as a row of its queue. */
export interface ReceivedRow {
  readonly key: ReceiptKey
  readonly row: InsertRow
}

/**
 * Writes a receipt for each message, and enqueues those that had none, in their order: one statement. Returns the ids of the
 * enqueued.
 *
 * @throws SluiceError ROWS_MISSING
 */
export async function enqueueReceived(
  execute: Execute,
  queue: string,
  received: readonly ReceivedRow[],
  retentionMs: number,
): Promise<string[]> {
  const rows = received.map(({ row }) => row)
  const keys = received.map(({ key }) => key)
  const params = [...insertParams(queue, rows), ...keyParams(keys), String(retentionMs)]
  const ids = textOrNull(only(await requiringRows(execute(ENQUEUE_RECEIVED, params))), 'ids')
  return ids === null ? [] : ids.split(' ')
}

// The receipts come first: the rows are joined with all that `receive` returns. The server counts the rows, because COMMIT may
// be on its way when the answer comes.
const ENQUEUE_RECEIVED = statement(
  'enqueue_received',
  `
WITH fresh AS MATERIALIZED (
  SELECT f.place
  FROM sluice_private.receive(
    $1::text, $4::text::jsonb, $5::text::jsonb, $6::text::double precision
  ) AS f (place)
), added AS (${insertSql('JOIN fresh f ON f.place = r.ordinal - 1')}
), counted AS (
  SELECT string_agg(a.id, ' ') AS ids, count(*) AS taken FROM added a
)
SELECT c.ids
FROM counted c, sluice_private.require_kept('message', $1::text, (SELECT count(*) FROM fresh), c.taken)`,
)
