import { checkKeys } from '../basics/checks/check-keys.ts'
import type { Headers } from '../message.ts'
import { DEFAULTS, type RowLabels } from '../table/enqueue/insert-row.ts'
import { readLabels } from './labels.ts'

/** The options of one event. */
export interface AppendOptions {
  /** Events with the same key are handled one at a time by each group, in the order of their positions: 1 to 255 bytes. Default none. */
  readonly orderingKey?: string | undefined
  /** Dot-separated, such as 'order.paid', for routes: 1 to 255 bytes, no spaces, no `*`. Default none. */
  readonly type?: string | undefined
  /** The version of the payload's schema, from 1. @default 1 */
  readonly schemaVersion?: number | undefined
  /** Metadata that travels with the event. @default {} */
  readonly headers?: Headers | undefined
}

const NAMES = ['orderingKey', 'type', 'schemaVersion', 'headers'] as const satisfies readonly (keyof AppendOptions)[]

/**
 * The options as columns of the row.
 *
 * @param what the name of the object in errors, such as 'options' or 'events[3]'
 * @throws SluiceError OPTION_INVALID, also for unknown options
 */
export function readAppendOptions(options: unknown, what: string): RowLabels {
  if (options === undefined) return LABELS
  checkKeys(what, options, NAMES, "As in { orderingKey: 'customer 7', type: 'order.paid' }")
  return readLabels(options, what)
}

const { type, schemaVersion, headers, orderingKey } = DEFAULTS
const LABELS: RowLabels = { type, schemaVersion, headers, orderingKey }
