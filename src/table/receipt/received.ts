import { type Execute, only, statement } from '../statement.ts'
import type { ReceiptKey } from './receive.ts'

/** Writes a receipt in the application's transaction, and returns whether there was none. */
export async function writeReceipt(
  execute: Execute,
  queue: string,
  { source, id }: ReceiptKey,
  retentionMs: number,
): Promise<boolean> {
  const row = only(await execute(RECEIVED, [queue, source, id, String(retentionMs)]))
  // The only column; its name may be another, as the application's client likes.
  const [answer] = Object.values(row)
  if (answer === 'true' || answer === 'false') return answer === 'true'
  throw new TypeError(`received: expected true or false, received ${typeof answer}`)
}

const RECEIVED = statement(
  'received',
  `
SELECT sluice.received(
  $1::pg_catalog.text,
  $2::pg_catalog.text,
  $3::pg_catalog.text,
  pg_catalog.make_interval(secs => $4::pg_catalog.text::double precision OPERATOR(pg_catalog./) 1000)
)::pg_catalog.text AS is_new`,
  ['is_new'],
)
