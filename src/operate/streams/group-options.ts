import { LARGEST_INTEGER } from '../../basics/checks/options.ts'
import type { OnFailure } from '../../table/stream/known-group.ts'
import { boolean, count, flag, oneOf } from '../options.ts'
import { offsetOr, type StreamOffset } from './stream-offset.ts'

/** Where a group begins, and how it handles failures. */
export interface StreamGroupOptions {
  /** Where a new group begins. @default 'end' */
  readonly from?: StreamOffset | undefined
  /**
   * What happens to an event that fails. `'defer'`: it waits in the group's queue for its next try, and later events with its key
   * wait behind it. `'stop'`: it blocks its partition until its next try, and after the last one until `groups.retry` or `groups.skip`.
   * @default 'defer', or as it is
   */
  readonly onFailure?: OnFailure | undefined
  /** How many events may be deferred; further failures block their partitions. @default 1000, or as it is */
  readonly deferLimit?: number | undefined
  /**
   * Whether segments stay that the group has not read: always, or never. @default as its stream says, unless the group is
   * paused
   */
  readonly keepUnread?: boolean | undefined
}

/** Which partitions of a group are retried. */
export interface RetryPartitionsOptions {
  /** One partition, from 0. @default all */
  readonly partition?: number | undefined
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
  /** How many events the group has to read then: counted up to 100,000 a partition, and beyond that taken from the positions. */
  readonly events: number
  /** How many it had to read before. */
  readonly before: number
  /** How many deferred events were dropped. */
  readonly dropped: number
}

/** The readers of {@link StreamGroupOptions}. */
export const GROUP = {
  from: offsetOr('end'),
  onFailure: oneOf(['defer', 'stop'], "'defer' or 'stop'"),
  deferLimit: count(null, 0, LARGEST_INTEGER),
  keepUnread: boolean,
}

/** The reader of {@link RetryPartitionsOptions}. */
export const RETRY = { partition: count(null, 0, 63) }

/** The readers of {@link SeekOptions}. */
export const SEEK = { dryRun: flag, deferred: oneOf(['keep', 'drop'], "'keep' or 'drop'") }
