import { integerWithin } from '../../basics/checks/options.ts'
import type { QueueName } from '../../queues.ts'
import { checkGroupName, groupQueue, type StreamDefinitions } from '../../streams.ts'
import { type Explanation, explainEvent } from '../../table/operate/explanations.ts'
import { pauseQueue, resumeQueue } from '../../table/operate/queues/queue-settings.ts'
import type { Execute } from '../../table/statement.ts'
import {
  countUnread,
  createGroup,
  deleteGroup,
  retryPartitions,
  seekGroup,
  skipEvent,
} from '../../table/stream/change-groups.ts'
import { readEventMessage } from '../../table/stream/event-message.ts'
import { readGroup } from '../../table/stream/known-group.ts'
import { readPositions } from '../../table/stream/read-events.ts'
import {
  type GroupPartitionStatus,
  type GroupStatus,
  readGroupPartitions,
  readGroups,
} from '../../table/stream/stream-status.ts'
import type { Operations } from '../operations.ts'
import { readFields } from '../options.ts'
import { CHANGE, PAUSE, type QueueChangeOptions } from '../queues/queue-settings.ts'
import {
  GROUP,
  RETRY,
  type RetryPartitionsOptions,
  SEEK,
  type SeekOptions,
  type SeekResult,
  type StreamGroupOptions,
} from './group-options.ts'
import { offsetOf, type StreamOffset } from './stream-offset.ts'

/** `sluice.groups`, and `sluice.operate.groups` */
export type Groups<Definitions extends StreamDefinitions | undefined = undefined> = {
  /**
   * Makes a group of a stream, or changes its options. Call it at every start: an existing group keeps its progress,
   * and the options that are not given.
   *
   * @param options.from where a new group begins. @default 'end'
   * @returns whether it was made.
   * @throws SluiceError as {@link Operate}
   *
   * @example await sluice.groups.set('orders', 'billing', { from: 'start' })
   */
  set(stream: QueueName<Definitions>, group: string, options?: StreamGroupOptions): Promise<boolean>

  /**
   * Groups by stream and name: how many events they have to read, how many are deferred, and how many workers they have.
   *
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly stream?: QueueName<Definitions> | undefined }): Promise<readonly GroupStatus[]>

  /**
   * Lists the partitions of a group: the position up to which each is read, and what blocks it. Empty: there is no such
   * group.
   *
   * @throws SluiceError as {@link Operate}
   */
  partitions(stream: QueueName<Definitions>, group: string): Promise<readonly GroupPartitionStatus[]>

  /**
   * Moves a group to an offset, forward or back, and unblocks it if it had lost events. Waits for its batches in flight.
   *
   * @throws SluiceError as {@link Operate}, GROUP_UNKNOWN, GROUP_HAS_DEFERRED
   *
   * @example await sluice.groups.seek('orders', 'billing', { time: new Date('2030-01-01') }, { deferred: 'drop' })
   */
  seek(stream: QueueName<Definitions>, group: string, to: StreamOffset, options?: SeekOptions): Promise<SeekResult>

  /**
   * Retries the failed events that block the group's partitions, now, with attempts reset.
   *
   * @returns how many partitions it unblocks.
   * @throws SluiceError as {@link Operate}, and GROUP_UNKNOWN
   *
   * @example await sluice.groups.retry('orders', 'billing')
   */
  retry(stream: QueueName<Definitions>, group: string, options?: RetryPartitionsOptions): Promise<number>

  /**
   * Skips a failed event that blocks its partition: it becomes a dead letter of the group's queue, and can be redriven.
   *
   * @returns false if the event blocked no partition.
   * @throws SluiceError as {@link Operate}, and GROUP_UNKNOWN
   *
   * @example await sluice.groups.skip('orders', 'billing', 4711)
   */
  skip(stream: QueueName<Definitions>, group: string, position: number): Promise<boolean>

  /**
   * Finds the id of the message for a failed event: in the group's queue, or among its dead letters.
   *
   * @returns undefined if the event is neither: not read yet, or handled.
   * @throws SluiceError as {@link Operate}
   *
   * @example
   * const id = await sluice.groups.messageOf('orders', 'billing', 4711)
   * if (id !== undefined) await sluice.operate.deadLetters.redrive({ queue: 'orders:billing', ids: [id] })
   */
  messageOf(stream: QueueName<Definitions>, group: string, position: number): Promise<string | undefined>

  /**
   * Explains why a group has not handled an event, or how it ended: the main reason and the others.
   *
   * @param position the event's position in the stream, from 1.
   * @throws SluiceError as {@link Operate}, and GROUP_UNKNOWN
   *
   * @example const { headline } = await sluice.groups.explain('orders', 'billing', 4711)
   */
  explain(stream: QueueName<Definitions>, group: string, position: number): Promise<Explanation>

  /**
   * Pauses a group: no worker reads for it or retries its deferred events until {@link resume}. What is in flight continues.
   *
   * @returns false if it was paused already.
   * @throws SluiceError as {@link Operate}, and GROUP_UNKNOWN
   */
  pause(
    stream: QueueName<Definitions>,
    group: string,
    options?: QueueChangeOptions & { readonly reason?: string | undefined },
  ): Promise<boolean>

  /** Ends the pause of a group. @returns false if it was not paused. @throws SluiceError as {@link pause} */
  resume(stream: QueueName<Definitions>, group: string, options?: QueueChangeOptions): Promise<boolean>

  /**
   * Deletes a group, with its deferred events, its dead letters and the settings of its queue. Waits for its batches in
   * flight.
   *
   * @returns how many deferred events and dead letters it had.
   * @throws SluiceError as {@link Operate}, and GROUP_UNKNOWN
   */
  delete(
    stream: QueueName<Definitions>,
    group: string,
  ): Promise<{ readonly deferred: number; readonly deadLetters: number }>
}

/** Answers the calls of {@link Groups}. */
export class GroupsInDatabase implements Groups {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async set(stream: string, group: string, options: StreamGroupOptions = {}): Promise<boolean> {
    const remedy = "As in groups.set('orders', 'billing', { from: 'start' })"
    const { from, ...params } = readFields('groups.set', options, GROUP, remedy)
    return this.#of(stream, group, 'administer', (execute, ...names) => createGroup(execute, ...names, from, params))
  }

  async list(options: { readonly stream?: string | undefined } = {}): Promise<readonly GroupStatus[]> {
    const readers = { stream: this.#operations.streamOrNull }
    const { stream } = readFields('groups.list', options, readers, "As in groups.list({ stream: 'orders' })")
    return this.#operations.count((execute) => readGroups(execute, stream))
  }

  async partitions(stream: string, group: string): Promise<readonly GroupPartitionStatus[]> {
    return this.#of(stream, group, 'count', readGroupPartitions)
  }

  async seek(stream: string, group: string, to: StreamOffset, options: SeekOptions = {}): Promise<SeekResult> {
    const remedy = "As in groups.seek('orders', 'billing', 'start', { dryRun: true })"
    const { deferred, dryRun } = readFields('groups.seek', options, SEEK, remedy)
    const offset = offsetOf(to, 'groups.seek.to')
    return this.#of(stream, group, dryRun ? 'count' : 'change', async (execute, ...names): Promise<SeekResult> => {
      await readGroup(execute, ...names)
      const starts = await readPositions(execute, names[0], offset)
      const { unread: events, before } = await countUnread(execute, ...names, starts)
      return { events, before, dropped: dryRun ? 0 : await seekGroup(execute, ...names, starts, deferred) }
    })
  }

  async retry(stream: string, group: string, options: RetryPartitionsOptions = {}): Promise<number> {
    const remedy = "As in groups.retry('orders', 'billing', { partition: 3 })"
    const { partition } = readFields('groups.retry', options, RETRY, remedy)
    return this.#of(stream, group, 'change', (execute, ...names) => retryPartitions(execute, ...names, partition))
  }

  async skip(stream: string, group: string, position: number): Promise<boolean> {
    const at = integerWithin('groups.skip.position', position, 1, Number.MAX_SAFE_INTEGER)
    return this.#of(stream, group, 'change', (execute, ...names) => skipEvent(execute, ...names, at))
  }

  async messageOf(stream: string, group: string, position: number): Promise<string | undefined> {
    const [streamName, groupName] = this.#names(stream, group)
    const at = integerWithin('groups.messageOf.position', position, 1, Number.MAX_SAFE_INTEGER)
    const queue = groupQueue({ stream: streamName, group: groupName })
    return this.#operations.count((execute) => readEventMessage(execute, queue, at))
  }

  async explain(stream: string, group: string, position: number): Promise<Explanation> {
    const at = integerWithin('groups.explain.position', position, 1, Number.MAX_SAFE_INTEGER)
    return this.#of(stream, group, 'count', (execute, ...names) => explainEvent(execute, ...names, at))
  }

  async pause(
    stream: string,
    group: string,
    options: QueueChangeOptions & { readonly reason?: string | undefined } = {},
  ): Promise<boolean> {
    const { by, reason, tx } = readFields('groups.pause', options, PAUSE)
    return this.#ofQueue(stream, group, (execute, queue) => pauseQueue(execute, queue, by, reason), tx)
  }

  async resume(stream: string, group: string, options: QueueChangeOptions = {}): Promise<boolean> {
    const { by, tx } = readFields('groups.resume', options, CHANGE)
    return this.#ofQueue(stream, group, (execute, queue) => resumeQueue(execute, queue, by), tx)
  }

  async delete(stream: string, group: string): Promise<{ readonly deferred: number; readonly deadLetters: number }> {
    const { messages, deadLetters } = await this.#of(stream, group, 'administer', deleteGroup)
    return { deferred: messages, deadLetters }
  }

  /** @throws SluiceError OPTION_INVALID, STREAM_NAME_INVALID, STREAM_UNKNOWN */
  #names(stream: unknown, group: unknown): readonly [stream: string, group: string] {
    const groupName = checkGroupName('group', group)
    return [this.#operations.stream(stream), groupName]
  }

  async #of<T>(
    stream: unknown,
    group: unknown,
    how: 'count' | 'change' | 'administer',
    work: (execute: Execute, stream: string, group: string) => Promise<T>,
    tx?: unknown,
  ): Promise<T> {
    const names = this.#names(stream, group)
    const named = (execute: Execute) => work(execute, ...names)
    return how === 'count' ? this.#operations.count(named) : this.#operations[how](named, tx)
  }

  /** Its queue has the pause of the group. */
  #ofQueue<T>(
    stream: unknown,
    group: unknown,
    work: (execute: Execute, queue: string) => Promise<T>,
    tx: unknown,
  ): Promise<T> {
    const onQueue = async (execute: Execute, streamName: string, groupName: string) => {
      await readGroup(execute, streamName, groupName)
      return work(execute, groupQueue({ stream: streamName, group: groupName }))
    }
    return this.#of(stream, group, 'change', onQueue, tx)
  }
}
