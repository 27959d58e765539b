import type { InsertRow } from '../../src/table/insert.ts'
import { postponeMessages } from '../../src/table/settle.ts'
import type { Execute } from '../../src/table/statement.ts'

/** A row to insert, with nothing special about it. */
export function insertRow(orderingKey: string | null = null): InsertRow {
  return {
    payload: '{"n":1}',
    headers: '{}',
    type: null,
    schemaVersion: 1,
    orderingKey,
    priority: 5,
    delayMs: 0,
    deliverAt: null,
    maxAttempts: null,
  }
}

/** Postpones messages as after their first failure. */
export function postponed(execute: Execute, queue: string, ids: readonly string[]): Promise<void> {
  const nowUs = Date.now() * 1_000
  const messages = ids.map((id) => ({ id, dueUs: nowUs + 1_000_000, attempt: 1, error: 'broken' }))
  return postponeMessages(execute, queue, messages, nowUs)
}
