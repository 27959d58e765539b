import { DeliveredMessage } from '../claim/delivered-message.ts'
import { NO_OPTIONS } from '../table/claim/claim.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { EventRow } from '../table/stream/append.ts'

/** The messages that a test gives to a handler, as if they had been enqueued just now: their ids are 1, 2, 3. */
export function toMessages(queue: string, rows: readonly InsertRow[]): readonly DeliveredMessage[] {
  return rows.map((row, at) => {
    const fresh = freshNow()
    const expiresUs = row.ttlMs === null ? null : fresh.dueUs + row.ttlMs * 1_000
    const options = row.tenant === null && expiresUs === null ? null : { ...NO_OPTIONS, tenant: row.tenant, expiresUs }
    return new DeliveredMessage(queue, { ...row, ...fresh, id: String(at + 1), options })
  })
}

/** The events that a test gives to a handler of a group, as if they had been appended just now: their positions are 1, 2, 3. */
export function toEvents(queue: string, rows: readonly EventRow[]): readonly DeliveredMessage[] {
  return rows.map((row, at) => {
    const options = { ...NO_OPTIONS, eventPosition: at + 1 }
    return new DeliveredMessage(queue, { ...row, ...freshNow(), ...OF_EVENT, id: `-${at + 1}`, options })
  })
}

const OF_EVENT = { priority: 5, maxAttempts: null } as const

function freshNow() {
  const nowUs = Date.now() * 1_000
  return { slot: null, attempt: 0, expired: false, dueUs: nowUs, enqueuedUs: nowUs } as const
}
