import { type OnDuplicate, OPTIONS, type RowOptions } from '../../message-options.ts'
import type { Row } from '../statement.ts'

/** The dedupe key of a row. */
export interface RowDedupe {
  readonly key: string
  readonly forMs: number | null
  readonly onDuplicate: OnDuplicate
}

/** What a message or an event says of itself. */
export type RowLabels = Pick<RowOptions, 'headers' | 'type' | 'schemaVersion' | 'orderingKey'>

/** The options of a row, and whether they are but defaults: such rows are inserted without any, which is faster. */
export interface InsertOptions extends RowOptions {
  /** Known since they were read: to compare twelve columns by name takes 0.2 µs a message. */
  readonly isPlain: boolean
  /** Null: it is not compared with others. */
  readonly dedupe: RowDedupe | null
}

/** One validated row to insert: JSON as text, and times that the database's clock resolves. */
export interface InsertRow extends InsertOptions {
  readonly payload: string
}

/** The options of a row that gives none. */
export const DEFAULTS: RowOptions = Object.fromEntries(
  OPTIONS.map(({ rowName, option }) => [rowName, option.byDefault ?? null]),
) as RowOptions

export const PLAIN: InsertOptions = { ...DEFAULTS, isPlain: true, dedupe: null }

/**
 * The id of an inserted row. The application's parsers for text may have changed its type, and its client the name of
 * the only column.
 */
export function idOf(row: Row): string {
  const [value] = Object.values(row)
  const text = String(value)
  if (/^\d+$/.test(text) && !(typeof value === 'number' && value > Number.MAX_SAFE_INTEGER)) return text
  throw notDigits(value)
}

/** Ids that are one text, with commas between them. */
export function idsOf(row: Row): readonly string[] {
  const [value] = Object.values(row)
  if (typeof value === 'string' && /^\d+(,\d+)*$/.test(value)) return value.split(',')
  throw notDigits(value)
}

function notDigits(value: unknown): TypeError {
  return new TypeError(`id: expected digits, received ${typeof value}. Does the application's client parse text?`)
}
