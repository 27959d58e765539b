import type { OnFailure } from '../table/stream/known-group.ts'
import type { StreamPlace } from './stream-place.ts'

/** Which events `read` takes. */
export interface ReadOptions {
  /** Where it begins. @default 'start' */
  readonly from?: StreamPlace | undefined
  /** Where it ends: at a position, which is read, or before a time. @default 'end', as of when it begins */
  readonly to?: StreamPlace | undefined
  /** Only events with this ordering key. */
  readonly orderingKey?: string | undefined
  /** Only events of this type. */
  readonly type?: string | undefined
  /** It ends after so many events. @default all */
  readonly limit?: number | undefined
  /** Goes on at the end, and looks for more after 10 to 250 ms, until the signal aborts or nobody listens. @default false */
  readonly follow?: boolean | undefined
  /** Ends it, without an error. */
  readonly signal?: AbortSignal | undefined
}

/** How a group begins, and what it is told. */
export interface StreamGroupOptions {
  /** Where a new group begins. @default 'end' */
  readonly from?: StreamPlace | undefined
  /**
   * What becomes of an event that fails. `'park'`: it waits in the group's queue for its next try, and the later ones of its key behind
   * it. `'stop'`: its slot waits for its next try, and after the last one until `operate.streams.retrySlots` or `skipEvent`.
   * @default 'park', or as it is
   */
  readonly onFailure?: OnFailure | undefined
  /** So many events may be parked before slots wait. @default 1000, or as it is */
  readonly parkLimit?: number | undefined
  /**
   * Whether segments stay that the group has not read: always, or never. @default as its stream says, unless the group is
   * paused
   */
  readonly keepUnread?: boolean | undefined
}

/** Which slots of a group go on. */
export interface RetrySlotsOptions {
  /** One slot, from 0. @default all */
  readonly slot?: number | undefined
}

/** How a group is moved. */
export interface SeekOptions {
  /** Moves nothing, and says how much there would be to read. @default false */
  readonly dryRun?: boolean | undefined
  /**
   * What becomes of events that are parked in the group's queue: they are tried again as well, or removed. Without it a group
   * with parked events is not moved.
   */
  readonly parked?: 'keep' | 'drop' | undefined
}

/** What a seek has done, or would do. */
export interface SeekResult {
  /** How many events the group has to read then: counted up to 100,000 a slot, and beyond that taken from the positions. */
  readonly events: number
  /** How many it had to read before. */
  readonly before: number
  /** How many parked events were removed. */
  readonly dropped: number
}
