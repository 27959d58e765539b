import type { InsertRow } from '../enqueue/insert-row.ts'
import { type Execute, statement, textOf } from '../statement.ts'

/** A message that was made for an endpoint. */
export interface SentWebhook {
  /** The name of the endpoint. */
  readonly endpoint: string
  /** The id of its message. */
  readonly id: string
}

/** To whom an event is sent. */
export interface WebhookReceivers {
  readonly owner: string | null
  readonly endpoint: string | null
}

/** Makes a message for each endpoint that gets the event. */
export async function sendWebhook(
  execute: Execute,
  queue: string,
  { type, payload, headers, schemaVersion }: Pick<InsertRow, 'type' | 'payload' | 'headers' | 'schemaVersion'>,
  { owner, endpoint }: WebhookReceivers,
): Promise<SentWebhook[]> {
  const rows = await execute(SEND, [queue, type, payload, owner, endpoint, headers, String(schemaVersion)])
  return rows.map((row) => ({ endpoint: textOf(row, 'name'), id: textOf(row, 'id') }))
}

// The id as text: some drivers parse int8 into a number.
const SEND = statement(
  'webhook_send',
  `
SELECT w.name, w.id::pg_catalog.text AS id
FROM sluice.send_webhook(
  queue => $1::pg_catalog.text,
  type => $2::pg_catalog.text,
  payload => $3::pg_catalog.text::pg_catalog.jsonb,
  owner => $4::pg_catalog.text,
  endpoint => $5::pg_catalog.text,
  headers => $6::pg_catalog.text::pg_catalog.jsonb,
  schema_version => $7::pg_catalog.text::integer
) w`,
)
