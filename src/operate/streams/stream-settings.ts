import { checkKeys } from '../../basics/checks/check-keys.ts'
import { type Duration, toMsWithin } from '../../basics/time/duration.ts'
import type { OpenTransaction } from '../../enqueue/open-transaction.ts'
import { expected } from '../../errors.ts'
import { PARTITIONS, type StreamColumns } from '../../table/stream/define-stream.ts'

/** The settings of a stream. What is not given stays as it is. */
export interface StreamSettings {
  /**
   * 1, 2, 4, 8, 16, 32 or 64: ordering keys are spread over them, and limit how many batches a group has in flight.
   * They change only while the stream has no events. @default 16
   */
  readonly partitions?: number | undefined
  /** How long events are kept, 1 s to 100 years; null: for ever. @default null */
  readonly retain?: Duration | null | undefined
  /** How many bytes of the disk events may take before the oldest are dropped, from 1; null: any number. @default null */
  readonly retainBytes?: number | null | undefined
  /** Whether events stay until every group has read them, in spite of `retain` and `retainBytes`. @default true */
  readonly keepUnread?: boolean | undefined
  /** How long a segment is open, 1 s to 100 years. Events are dropped by segment. @default '1d' */
  readonly segment?: Duration | undefined
}

/** How to change a stream. */
export interface StreamChangeOptions {
  /** Your open transaction, of any client that `append` takes. Default: one of Sluice's own. */
  readonly tx?: OpenTransaction | undefined
}

const NAMES = [
  'partitions',
  'retain',
  'retainBytes',
  'keepUnread',
  'segment',
] as const satisfies readonly (keyof StreamSettings)[]

/** @throws SluiceError OPTION_INVALID */
export function columnsOf(settings: unknown): StreamColumns {
  checkKeys('settings', settings, NAMES, "As in streams.set('orders', { retain: '30d' })")
  const given: { readonly [Name in keyof StreamSettings]?: unknown } = settings
  return {
    partitions: partitionsOf(given.partitions),
    retainMs: given.retain === null ? 0 : msOf('retain', given.retain),
    retainBytes: bytesOf(given.retainBytes),
    keepUnread: keepUnreadOf(given.keepUnread),
    segmentMs: msOf('segment', given.segment),
  }
}

function partitionsOf(partitions: unknown): number | null {
  if (partitions === undefined) return null
  const known = PARTITIONS.find((number) => number === partitions)
  if (known !== undefined) return known
  throw expected('OPTION_INVALID', 'settings.partitions', `one of ${PARTITIONS.join(', ')}`, partitions)
}

function msOf(name: string, duration: unknown): number | null {
  return duration === undefined ? null : toMsWithin(`settings.${name}`, duration, '1s')
}

function bytesOf(bytes: unknown): number | null {
  if (bytes === undefined) return null
  if (bytes === null) return 0
  if (typeof bytes === 'number' && Number.isSafeInteger(bytes) && bytes >= 1) return bytes
  throw expected('OPTION_INVALID', 'settings.retainBytes', 'an integer from 1, or null', bytes)
}

function keepUnreadOf(keep: unknown): boolean | null {
  if (keep === undefined) return null
  if (typeof keep === 'boolean') return keep
  throw expected('OPTION_INVALID', 'settings.keepUnread', 'true or false', keep)
}
