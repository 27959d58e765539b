import { insertParams, insertSql } from '../enqueue/insert.ts'
import type { InsertRow } from '../enqueue/insert-row.ts'
import { requiringRows } from '../rows-missing.ts'
import { type Execute, only, statement, textOrNull } from '../statement.ts'
import { keyParams, type ReceiptKey } from './receive.ts'

/** Received messages: their keys, and in the same order what they are as rows of their queue. */
export interface ReceivedRows {
  readonly keys: readonly ReceiptKey[]
  readonly rows: readonly InsertRow[]
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
  { keys, rows }: ReceivedRows,
  retentionMs: number,
): Promise<string[]> {
  const params = [...insertParams(queue, rows), ...keyParams(keys), String(retentionMs)]
  const ids = textOrNull(only(await requiringRows(execute(ENQUEUE_RECEIVED, params))), 'ids')
  return ids === null ? [] : ids.split(' ')
}

// The receipts come first: each row is joined with what `receive` returns. The server counts the rows, because COMMIT may
// be on its way when the answer comes.
const ENQUEUE_RECEIVED = statement(
  'enqueue_received',
  `
WITH received AS MATERIALIZED (
  SELECT sluice_private.receive(
    $1::text, $4::text::jsonb, $5::text::jsonb, $6::text::double precision
  ) AS is_new
), added AS (${insertSql('JOIN received f ON f.is_new[r.ordinal]')}
), counted AS (
  SELECT string_agg(a.id, ' ') AS ids, count(*) AS taken FROM added a
)
SELECT c.ids
FROM counted c, received f, sluice_private.require_kept(
  'message', $1::text, pg_catalog.cardinality(pg_catalog.array_positions(f.is_new, true)), c.taken
)`,
)
