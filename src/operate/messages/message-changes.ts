import { checkKeys } from '../../basics/checks/check-keys.ts'
import type { Duration } from '../../basics/time/duration.ts'
import type { OpenTransaction } from '../../enqueue/open-transaction.ts'
import { readOptions } from '../../enqueue/options.ts'
import { type MessageRules, readMessage } from '../../enqueue/read-message.ts'
import { expected } from '../../errors.ts'
import type { Headers } from '../../message.ts'
import type { InsertOptions, InsertRow } from '../../table/enqueue/insert-row.ts'
import type { MessageChange } from '../../table/operate/messages/change-message.ts'

/** In which transaction a message is changed. */
export interface MessageChangeOptions {
  /** Your open transaction, of any client that `enqueue` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

/** What `operate.messages.change` changes: what is left out stays as it is. */
export interface MessageChanges<Payload = unknown> {
  /** The whole payload. A queue with a schema checks it. */
  readonly payload?: Payload | undefined
  /** All headers. */
  readonly headers?: Headers | undefined
  /** 0 (first) to 9. */
  readonly priority?: number | undefined
  readonly type?: string | undefined
  readonly schemaVersion?: number | undefined
  readonly maxAttempts?: number | undefined
  /** Its time to live, counted from the due time. */
  readonly ttl?: Duration | undefined
}

/** When `operate.messages.reschedule` makes a message due: one of the two. */
export type NewDueTime =
  | { readonly delay: Duration; readonly dueAt?: undefined }
  | { readonly dueAt: Date; readonly delay?: undefined }

/** @throws SluiceError OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA */
export async function readChanges(rules: MessageRules, queue: string, changes: MessageChanges): Promise<MessageChange> {
  checkKeys(WHAT, changes, CHANGES, `As in ${WHAT}('emails', id, { priority: 0 })`)
  const given = Object.entries(changes).filter(([, value]) => value !== undefined)
  if (given.length === 0) throw expected('OPTION_INVALID', WHAT, 'something to change', changes)
  const { payload, ...options } = changes
  const names = { payload: `${WHAT}.payload`, options: WHAT }
  const row: Partial<InsertRow> & InsertOptions =
    payload === undefined ? readOptions(options, WHAT) : await readMessage(rules, queue, { payload, options }, names)
  const columns = given.map(([name]) => (name === 'ttl' ? 'ttlMs' : name) as keyof MessageChange)
  return Object.fromEntries(columns.map((column) => [column, row[column]]))
}

const WHAT = 'messages.change'
const CHANGES = ['payload', 'headers', 'priority', 'type', 'schemaVersion', 'maxAttempts', 'ttl'] as const
