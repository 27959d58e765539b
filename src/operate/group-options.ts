import { checkKeys } from '../basics/check-keys.ts'
import { integer, LARGEST_INTEGER } from '../basics/options.ts'
import { expected } from '../errors.ts'
import type { GroupParams } from '../table/stream/change-groups.ts'
import type { OnFailure } from '../table/stream/known-group.ts'
import type { PlaceParams } from '../table/stream/read-events.ts'
import { booleanOf } from './options.ts'
import { offsetOf, type StreamOffset } from './stream-offset.ts'

/** Where a group begins, and how it handles failures. */
export interface StreamGroupOptions {
  /** Where a new group begins. @default 'end' */
  readonly from?: StreamOffset | undefined
  /**
   * What happens to an event that fails. `'defer'`: it waits in the group's queue for its next try, and later events with its key
   * wait behind it. `'stop'`: it blocks its slot until its next try, and after the last one until `groups.retry` or `groups.skip`.
   * @default 'defer', or as it is
   */
  readonly onFailure?: OnFailure | undefined
  /** How many events may be deferred; further failures block their slots. @default 1000, or as it is */
  readonly deferLimit?: number | undefined
  /**
   * Whether segments stay that the group has not read: always, or never. @default as its stream says, unless the group is
   * paused
   */
  readonly keepUnread?: boolean | undefined
}

/** Which slots of a group are retried. */
export interface RetrySlotsOptions {
  /** One slot, from 0. @default all */
  readonly slot?: number | undefined
}

/** How a group is moved. */
export interface SeekOptions {
  /** Moves nothing, and returns how many events there would be to read. @default false */
  readonly dryRun?: boolean | undefined
  /**
   * What happens to deferred events in the group's queue: they are kept, and tried again as well, or dropped. Without it a group
   * with deferred events is not moved.
   */
  readonly deferred?: 'keep' | 'drop' | undefined
}

/** What a seek has done, or would do. */
export interface SeekResult {
  /** How many events the group has to read then: counted up to 100,000 a slot, and beyond that taken from the positions. */
  readonly events: number
  /** How many it had to read before. */
  readonly before: number
  /** How many deferred events were dropped. */
  readonly dropped: number
}

/** @throws SluiceError OPTION_INVALID */
export function readGroupOptions(options: StreamGroupOptions): GroupParams & { readonly from: PlaceParams } {
  const what = 'groups.set'
  const keys = ['from', 'onFailure', 'deferLimit', 'keepUnread'] as const
  checkKeys(what, options, keys, `As in ${what}('orders', 'billing', { from: 'start' })`)
  const { onFailure } = options
  if (onFailure !== undefined && onFailure !== 'defer' && onFailure !== 'stop')
    throw expected('OPTION_INVALID', `${what}.onFailure`, "'defer' or 'stop'", onFailure)
  return {
    from: offsetOf(options.from ?? 'end', `${what}.from`),
    onFailure: onFailure ?? null,
    deferLimit: integer(`${what}.deferLimit`, options.deferLimit, null, 0, LARGEST_INTEGER),
    keepUnread: booleanOf(options.keepUnread, `${what}.keepUnread`) ?? null,
  }
}

/** @throws SluiceError OPTION_INVALID */
export function readSeekOptions(options: SeekOptions): {
  readonly deferred: 'keep' | 'drop' | null
  readonly dryRun: boolean
} {
  const what = 'groups.seek'
  checkKeys(what, options, ['dryRun', 'deferred'], `As in ${what}('orders', 'billing', 'start', { dryRun: true })`)
  const { deferred } = options
  if (deferred !== undefined && deferred !== 'keep' && deferred !== 'drop')
    throw expected('OPTION_INVALID', `${what}.deferred`, "'keep' or 'drop'", deferred)
  return { deferred: deferred ?? null, dryRun: booleanOf(options.dryRun, `${what}.dryRun`) ?? false }
}
