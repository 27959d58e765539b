import { inject } from 'vitest'
import { DEFAULTS, type InsertRow } from '../../../src/table/enqueue/insert-row.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { recordBatches } from '../../../src/table/worker/worker.ts'
import { ackMessages, deadLetterMessages, postponeMessages } from './write-settled.ts'

/** A row to insert, with nothing special about it. */
export function insertRow(orderingKey: string | null = null): InsertRow {
  return { ...DEFAULTS, payload: '{"n":1}', orderingKey, delayMs: 0, isPlain: false, dedupe: null }
}

/** Postpones messages as after their first failure. */
export function postponed(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  const nowUs = Date.now() * 1_000
  const messages = ids.map((id) => ({ id, dueUs: nowUs + 1_000_000, attempt: 1, error: 'broken' }))
  return postponeMessages(execute, queue, messages, nowUs)
}

/** Moves messages to the dead letters as after their last failure. */
export function buried(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  const messages = ids.map((id) => ({ id, attempt: 1, reason: 'too many', error: 'broken' }))
  return deadLetterMessages(execute, queue, messages)
}

/** Writes down that a batch of these messages begins, and that the one before it has ended. */
export async function batchRecorded(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  await recordBatches(execute, 1, [1], [{ id: 2, queue, messageIds: ids, attempts: ids.map(() => 0) }])
}

/** Removes messages, as it is done on a server of this version. */
export function acked(
  execute: Execute,
  queue: string,
  ids: readonly string[],
  serverVersion = inject('serverVersion'),
): Promise<void> {
  return ackMessages(execute, queue, ids, serverVersion)
}
