import type { Duration } from '../basics/time/duration.ts'
import type { Message } from '../message.ts'
import type { RetryOptions, RetryPolicy } from '../retry-policy.ts'
import type { StreamGroup } from '../streams.ts'
import type { BacklogOptions, BacklogPlan } from './backlog.ts'

/** How a pipeline delivers its messages. */
export type Mode = 'transactional' | 'leased'

/** How a pipeline consumes its queue. */
export interface PipelineOptions {
  /** One transaction claims the messages, has them handled and settles them. @default 'transactional' */
  readonly mode?: 'transactional' | undefined
  /**
   * How many batches are in flight in this process, each on its own connection, 1 to 1,000. The messages of one batch
   * are handled one after another: for handlers that should run side by side, because they wait for other services,
   * take `batchSize: 1`. @default 1
   */
  readonly concurrency?: number | undefined
  /**
   * The most messages in one transaction, 1 to 1,000. Their handlers run one after another. With handlers that write
   * through `tx`, more than 64 make the server's snapshots slower (subtransactions). @default 10
   */
  readonly batchSize?: number | undefined
  /**
   * The longest that one handler may take, 1 ms to 1 h. No handler of a batch starts later than that after the first,
   * so a transaction lasts at most twice as long; the server enforces it. @default '30s'
   */
  readonly timeout?: Duration | undefined
  /** When to try failed messages again. @default exponential: 1 s, 2 s, 4 s, … 1 h, with 20 % jitter */
  readonly retry?: RetryOptions | undefined
  /**
   * The number of failed attempts after which a message becomes a dead letter, 1 to 1,000,000. A message's own limit
   * takes precedence.
   * @default 20
   */
  readonly maxAttempts?: number | undefined
  /**
   * Handle the messages without an ordering key in order as well, as one sequence across all processes. Messages with
   * a key are always in order of their key. All pipelines of a queue should agree. @default false
   */
  readonly ordered?: boolean | undefined
  /**
   * The least time between two claims of this pipeline, 1 ms to 1 h. In this process alone: with `batchSize: 10` and
   * `throttle: '1s'` it takes 10 messages a second at most. @default none
   */
  readonly throttle?: Duration | undefined
  /**
   * Called after each attempt that failed with an error, before that is written: `'continue'`; `'pause'` calls
   * `pause()`; `'stop'` finishes the messages in flight, and ends the pipeline. What it throws is reported as
   * `onError.failed`, and counts as `'continue'`.
   * @default always 'continue'
   */
  readonly onError?: OnError | undefined
  /** Warns when the queue has more messages, or older ones, than it should. @default never */
  readonly backlog?: BacklogOptions | undefined
  /** Of a pipeline that consumes a stream: see {@link GroupPipelineOptions}. */
  readonly group?: undefined
}

/** How a pipeline consumes a stream. Its first argument is the stream's name. */
export interface GroupPipelineOptions extends Omit<PipelineOptions, 'ordered' | 'group'> {
  /** There is no such option: events of one ordering key are handled in order, and so is a stream with one partition. */
  readonly ordered?: undefined
  /**
   * The group, which `sluice.groups.set` has made: every group gets every event, and the members of a group, in any
   * number of processes, share them. Failed events, and the later ones of their keys, are messages of the queue
   * `<stream>:<group>` until they are settled.
   */
  readonly group: string
}

/** Decides what a pipeline does after an attempt that failed: what the handler threw, or why it failed otherwise. */
export type OnError = (error: unknown, message: Message) => 'continue' | 'pause' | 'stop'

/** How a pipeline consumes its queue in leased mode. */
export interface LeasedPipelineOptions
  extends Pick<PipelineOptions, 'retry' | 'maxAttempts' | 'throttle' | 'onError' | 'backlog'> {
  /** A short transaction claims and a short one settles; the handler runs with none open. */
  readonly mode: 'leased'
  /** How many messages are handled at a time in this process, 1 to 10,000. @default 10 */
  readonly concurrency?: number | undefined
  /** The most messages that one claim takes, 1 to 1,000. @default the concurrency, up to 100 */
  readonly batchSize?: number | undefined
  /**
   * How long a message stays reserved after its worker was last seen. It is renewed while the handler runs, so it limits
   * the wait after a death that goes unnoticed, and not the work. 1 s to 24 h. @default '5m'
   */
  readonly lease?: Duration | undefined
  /** The longest that one handler may take, 1 ms to 7 days. @default '15m' */
  readonly timeout?: Duration | undefined
}

/** The options of any pipeline. */
export type AnyPipelineOptions = PipelineOptions | GroupPipelineOptions | LeasedPipelineOptions

/**
 * The options of a pipeline with this `mode` and this `group`. One signature takes all kinds, so a wrong option has one
 * error.
 */
export type PipelineOptionsWith<In extends Mode | undefined, Group extends string | undefined> = Chosen<In, Group> &
  (Group extends string ? GroupPipelineOptions : In extends 'leased' ? LeasedPipelineOptions : PipelineOptions)

/** By what a call chooses its kind: the compiler infers the two from here. */
export interface Chosen<In, Group> {
  readonly mode?: In
  readonly group?: Group
}

/** What a consumer with this `mode` and this `group` works for. */
export type KindWith<In extends Mode | undefined, Group extends string | undefined> = Group extends string
  ? 'group'
  : In extends 'leased'
    ? 'leased'
    : 'transactional'

/** So many handlers of a leased pipeline may have a transaction at a time: each takes a connection. */
export const MOST_TRANSACTIONS = 10

/** The options, complete and checked. */
export type PipelinePlan = TransactionalPlan | LeasedPlan

export interface TransactionalPlan extends CommonPlan {
  readonly mode: 'transactional'
  readonly ordered: boolean
  /** From how many slots of keys a claim takes, if so many have messages: see {@link SlotShare}. @default 1 */
  readonly slotsPerClaim?: number | undefined
  /** What it consumes is a stream, for this group, and `queue` is the group's. */
  readonly log?: LogPlan | undefined
}

export interface LogPlan extends StreamGroup {
  /**
   * The effects of its handlers are outside of the database: an event that has succeeded comes again where an earlier one of
   * its partition stays.
   */
  readonly mayRepeat?: boolean | undefined
}

export interface LeasedPlan extends CommonPlan {
  readonly mode: 'leased'
  readonly leaseMs: number
}

interface CommonPlan {
  readonly queue: string
  readonly concurrency: number
  readonly batchSize: number
  readonly timeoutMs: number
  readonly retry: RetryPolicy
  readonly maxAttempts: number
  readonly throttleMs: number | undefined
  readonly onError: OnError | undefined
  readonly backlog: BacklogPlan | undefined
  /** Of a relay: the name of the kind of its destination. */
  readonly destination?: string | undefined
}

/** Whether messages without an ordering key are one sequence. */
export function isOrdered(plan: PipelinePlan): boolean {
  return plan.mode === 'transactional' && plan.ordered
}
