import type { Row } from '../statement.ts'

/** What an enqueue does that finds its dedupe key taken. */
export const ON_DUPLICATE = ['reject', 'update', 'requeue', 'debounce', 'throttle'] as const
/** One of {@link ON_DUPLICATE}. */
export type OnDuplicate = (typeof ON_DUPLICATE)[number]

/** The dedupe key of a row. */
export interface RowDedupe {
  readonly key: string
  readonly forMs: number | null
  readonly onDuplicate: OnDuplicate
}

/** What a message or an event says of itself. */
export interface RowLabels {
  /** JSON. */
  readonly headers: string
  readonly type: string | null
  readonly schemaVersion: number
  readonly orderingKey: string | null
}

/** One validated row to insert: JSON as text, and times that the database's clock resolves. */
export interface InsertRow extends RowLabels {
  readonly payload: string
  readonly priority: number
  /** Due this long after the insert, by the database's clock; null: as the queue has been told, or at once. */
  readonly delayMs: number | null
  /** Or due at this instant (ISO 8601), if it is later. */
  readonly dueAt: string | null
  readonly maxAttempts: number | null
  /** Expires this long after it is due first; null: as the queue has been told, or never. */
  readonly ttlMs: number | null
  readonly retryPolicy: string | null
  readonly leaseMs: number | null
  readonly tenant: string | null
  /** Null: nobody asks whether there is another like it. */
  readonly dedupe: RowDedupe | null
}

/** The defaults of the table. */
export const DEFAULTS: Omit<InsertRow, 'payload'> = {
  type: null,
  schemaVersion: 1,
  headers: '{}',
  orderingKey: null,
  priority: 5,
  delayMs: null,
  dueAt: null,
  maxAttempts: null,
  ttlMs: null,
  retryPolicy: null,
  leaseMs: null,
  tenant: null,
  dedupe: null,
}

/** Whether a row has nothing but its payload and the table's defaults. */
export function isPlain(row: InsertRow): boolean {
  return (
    row.orderingKey === DEFAULTS.orderingKey &&
    row.type === DEFAULTS.type &&
    row.headers === DEFAULTS.headers &&
    row.priority === DEFAULTS.priority &&
    row.delayMs === DEFAULTS.delayMs &&
    row.dueAt === DEFAULTS.dueAt &&
    row.schemaVersion === DEFAULTS.schemaVersion &&
    row.maxAttempts === DEFAULTS.maxAttempts &&
    row.ttlMs === DEFAULTS.ttlMs &&
    row.retryPolicy === DEFAULTS.retryPolicy &&
    row.leaseMs === DEFAULTS.leaseMs &&
    row.tenant === DEFAULTS.tenant
  )
}

/**
 * The id of an inserted row. The application's parsers for text may have changed its type, and its client the name of
 * the only column.
 */
export function idOf(row: Row): string {
  const [value] = Object.values(row)
  const text = String(value)
  if (/^\d+$/.test(text) && !(typeof value === 'number' && value > Number.MAX_SAFE_INTEGER)) return text
  throw new TypeError(`id: expected digits, received ${typeof value}. Does the application's client parse text?`)
}
