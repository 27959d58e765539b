import type { Row } from '../statement.ts'

/** One validated row to insert: JSON as text, and times that the database's clock resolves. */
export interface InsertRow {
  readonly payload: string
  readonly headers: string
  readonly type: string | null
  readonly schemaVersion: number
  readonly orderingKey: string | null
  readonly priority: number
  /** Due this long after the insert, by the database's clock. */
  readonly delayMs: number
  /** Or due at this instant (ISO 8601), if it is later. */
  readonly dueAt: string | null
  readonly maxAttempts: number | null
}

/** The defaults of the table. */
export const DEFAULTS: Omit<InsertRow, 'payload'> = {
  type: null,
  schemaVersion: 1,
  headers: '{}',
  orderingKey: null,
  priority: 5,
  delayMs: 0,
  dueAt: null,
  maxAttempts: null,
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
    row.maxAttempts === DEFAULTS.maxAttempts
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
