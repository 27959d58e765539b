import type { Sluice } from '../../src/sluice.ts'
import type { TestDatabase } from './servers/database.ts'
import { type Receiver, startReceiver } from './servers/receiver.ts'
import { test as base } from './sluice.ts'

/** `test` with a server that gets webhooks. */
export const test = base.extend('receiver', () => startReceiver())

/** Sends what is due now, once. */
export function sendDue(
  sluice: Sluice,
  queue: string,
  { reach }: Receiver,
  options: Parameters<Sluice['webhooks']>[1] = {},
) {
  return sluice.webhooks(queue, { ...reach, ...options }).runOnce()
}

/** Makes messages of a queue due, which wait for another attempt. */
export async function makeDue(database: TestDatabase, queue: string): Promise<void> {
  await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1', [queue])
}

/** The rows of messages, in their order. */
export function messagesOf(database: TestDatabase, queue: string) {
  return database.sql<{
    tenant: string | null
    attempt: number
    payload: unknown
    last_error: string | null
    due_in: number
  }>(
    `SELECT tenant, attempt, payload, last_error, extract(epoch FROM due_at - clock_timestamp())::float8 AS due_in
     FROM sluice.message WHERE queue = $1 ORDER BY id`,
    [queue],
  )
}
