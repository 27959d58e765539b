import { checkKeys } from '../basics/check-keys.ts'
import { integer, integerWithin, LARGEST_INTEGER } from '../basics/options.ts'
import { expected, SluiceError } from '../errors.ts'
import type { InputOf, QueueName } from '../queues.ts'
import { checkGroupName, checkStreamName, groupQueue, type StreamDefinitions } from '../streams.ts'
import { pauseQueue, resumeQueue } from '../table/operate/queue-settings.ts'
import type { Execute } from '../table/statement.ts'
import {
  countUnread,
  createGroup,
  deleteGroup,
  retrySlots,
  seekGroup,
  skipEvent,
  type TrimResult,
  trimStream,
} from '../table/stream/change-groups.ts'
import { defineStream } from '../table/stream/define-stream.ts'
import { readEventMessage } from '../table/stream/event-message.ts'
import { type OnFailure, readGroup } from '../table/stream/known-group.ts'
import { readPositions } from '../table/stream/read-events.ts'
import {
  type GroupSlotStatus,
  type GroupStatus,
  readGroupSlots,
  readGroups,
  readStreams,
  type StreamStatus,
} from '../table/stream/stream-status.ts'
import type { Operations } from './operations.ts'
import { booleanOf, textOf } from './options.ts'
import { byOf, type QueueChangeOptions } from './queue-settings.ts'
import { StreamEvents } from './stream-events.ts'
import type { ReadOptions, RetrySlotsOptions, SeekOptions, SeekResult, StreamGroupOptions } from './stream-options.ts'
import { streamPages } from './stream-pages.ts'
import { placeOf, type StreamPlace } from './stream-place.ts'
import { columnsOf, type StreamChangeOptions, type StreamSettings } from './stream-settings.ts'

/** `sluice.operate.streams` */
export class StreamOperations<Definitions extends StreamDefinitions | undefined = undefined> {
  readonly #definitions: StreamDefinitions | undefined
  readonly #operations: Operations

  constructor(definitions: StreamDefinitions | undefined, operations: Operations) {
    this.#definitions = definitions
    this.#operations = operations
  }

  /**
   * Makes a stream, or changes its settings: as `sluice.stream`.
   *
   * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN, STREAM_SLOTS_FIXED, OPTION_INVALID, SCHEMA_MISSING, SCHEMA_TOO_OLD,
   * SCHEMA_TOO_NEW, PRIVILEGE_MISSING, UNREACHABLE, COMMIT_FAILED, STOPPED; with `tx` EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION
   */
  async set(
    name: QueueName<Definitions>,
    settings: StreamSettings = {},
    options: StreamChangeOptions = {},
  ): Promise<boolean> {
    checkKeys('options', options, ['tx'], 'As in stream(name, settings, { tx })')
    const stream = checkStreamName(name, this.#definitions)
    const columns = columnsOf(settings)
    return this.#operations.administer((execute) => defineStream(execute, stream, columns), options.tx)
  }

  /**
   * Streams by name: how much they have, how long that is kept, and who holds them back.
   *
   * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID, SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW, PRIVILEGE_MISSING, UNREACHABLE, STOPPED
   */
  async list(options: { readonly stream?: QueueName<Definitions> | undefined } = {}): Promise<readonly StreamStatus[]> {
    checkKeys('streams.list', options, ['stream'], "As in streams.list({ stream: 'orders' })")
    const stream = options.stream === undefined ? null : checkStreamName(options.stream, this.#definitions)
    return this.#operations.count((execute) => readStreams(execute, stream))
  }

  /** Groups by stream and name: what they have to read, what is parked, who reads. @throws SluiceError as {@link list} */
  async groups(
    options: { readonly stream?: QueueName<Definitions> | undefined } = {},
  ): Promise<readonly GroupStatus[]> {
    checkKeys('streams.groups', options, ['stream'], "As in streams.groups({ stream: 'orders' })")
    const stream = options.stream === undefined ? null : checkStreamName(options.stream, this.#definitions)
    return this.#operations.count((execute) => readGroups(execute, stream))
  }

  /** How far a group has read each slot, and who holds it back. Empty: there is no such group. @throws SluiceError as {@link list} */
  async slots(stream: QueueName<Definitions>, group: string): Promise<readonly GroupSlotStatus[]> {
    const [streamName, groupName] = this.#names(stream, group)
    return this.#operations.count((execute) => readGroupSlots(execute, streamName, groupName))
  }

  /**
   * Events of a stream in the order of their positions, without a group: each call reads for itself, and nothing remembers how
   * far. It reads below the first append that is still open, so that no event appears before one that it has given.
   *
   * @throws SluiceError OPTION_INVALID; as it reads STREAM_UNKNOWN and as {@link list}
   */
  read<Name extends QueueName<Definitions>>(
    stream: Name,
    options: ReadOptions = {},
  ): StreamEvents<InputOf<Definitions, Name>> {
    checkKeys('read', options, READ_KEYS, "As in read('orders', { from: 'start' })")
    const { signal } = options
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw expected('OPTION_INVALID', 'read.signal', 'an AbortSignal', signal)
    }
    const plan = {
      stream: checkStreamName(stream, this.#definitions),
      from: placeOf(options.from ?? 'start', 'read.from'),
      to: placeOf(options.to ?? 'end', 'read.to'),
      orderingKey: textOf(options.orderingKey, 'read.orderingKey') ?? null,
      type: textOf(options.type, 'read.type') ?? null,
      limit: integer('read.limit', options.limit, Number.POSITIVE_INFINITY, 1, Number.MAX_SAFE_INTEGER),
      follow: booleanOf(options.follow, 'read.follow') ?? false,
    }
    if (plan.follow && options.to !== undefined) {
      throw new SluiceError(
        'OPTION_INVALID',
        'read.to: expected none with follow, received one. Leave one of the two out',
      )
    }
    const reading = <T>(work: (execute: Execute) => Promise<T>) => this.#operations.read(work)
    return new StreamEvents(async function* (until) {
      yield* streamPages(plan, reading, until)
    }, signal)
  }

  /**
   * Makes a group, if there is none of this name; one that is there stays where it is, and is told the options that are given.
   *
   * @returns whether it was made.
   * @throws SluiceError STREAM_UNKNOWN, COMMIT_FAILED, and as {@link list}
   */
  async group(stream: QueueName<Definitions>, group: string, options: StreamGroupOptions = {}): Promise<boolean> {
    checkKeys(
      'group',
      options,
      ['from', 'onFailure', 'parkLimit', 'keepUnread'],
      "As in group('orders', 'billing', { from: 'start' })",
    )
    const [streamName, groupName] = this.#names(stream, group)
    const from = placeOf(options.from ?? 'end', 'group.from')
    const onFailure = onFailureOf(options.onFailure)
    const parkLimit = integer('group.parkLimit', options.parkLimit, null, 0, LARGEST_INTEGER)
    const keepUnread = booleanOf(options.keepUnread, 'group.keepUnread') ?? null
    return this.#operations.administer((execute) =>
      createGroup(execute, streamName, groupName, from, { onFailure, parkLimit, keepUnread }),
    )
  }

  /**
   * Moves a group to a place, forward or back, and ends its standstill if it has lost events. Waits for the batches that it has
   * in hand.
   *
   * @throws SluiceError GROUP_UNKNOWN, GROUP_HAS_PARKED, and as {@link group}
   *
   * @example await sluice.operate.streams.seek('orders', 'billing', { time: new Date('2030-01-01') }, { parked: 'drop' })
   */
  async seek(
    stream: QueueName<Definitions>,
    group: string,
    to: StreamPlace,
    options: SeekOptions = {},
  ): Promise<SeekResult> {
    checkKeys('seek', options, ['dryRun', 'parked'], "As in seek('orders', 'billing', 'start', { dryRun: true })")
    const [streamName, groupName] = this.#names(stream, group)
    const place = placeOf(to, 'seek.to')
    const parked = parkedOf(options.parked)
    const dryRun = booleanOf(options.dryRun, 'seek.dryRun') ?? false
    const work = async (execute: Execute): Promise<SeekResult> => {
      await readGroup(execute, streamName, groupName)
      const starts = await readPositions(execute, streamName, place)
      const { unread: events, before } = await countUnread(execute, streamName, groupName, starts)
      return { events, before, dropped: dryRun ? 0 : await seekGroup(execute, streamName, groupName, starts, parked) }
    }
    return dryRun ? this.#operations.count(work) : this.#operations.change(work)
  }

  /**
   * Has the events tried again now for which slots of a group wait because they have failed, as if they never had been tried.
   *
   * @returns how many slots go on.
   * @throws SluiceError GROUP_UNKNOWN, and as {@link group}
   *
   * @example await sluice.operate.streams.retrySlots('orders', 'billing')
   */
  async retrySlots(stream: QueueName<Definitions>, group: string, options: RetrySlotsOptions = {}): Promise<number> {
    checkKeys('retrySlots', options, ['slot'], "As in retrySlots('orders', 'billing', { slot: 3 })")
    const slot = integer('retrySlots.slot', options.slot, null, 0, 63)
    return this.#ofGroup(stream, group, (execute, streamName, groupName) =>
      retrySlots(execute, streamName, groupName, slot),
    )
  }

  /**
   * Passes over an event that has failed and for which its slot waits: it becomes a dead letter of the group's queue, and can be
   * redriven.
   *
   * @returns false if no slot was waiting for it.
   * @throws SluiceError GROUP_UNKNOWN, and as {@link group}
   *
   * @example await sluice.operate.streams.skipEvent('orders', 'billing', 4711)
   */
  async skipEvent(stream: QueueName<Definitions>, group: string, position: number): Promise<boolean> {
    const at = integerWithin('skipEvent.position', position, 1, Number.MAX_SAFE_INTEGER)
    return this.#ofGroup(stream, group, (execute, streamName, groupName) =>
      skipEvent(execute, streamName, groupName, at),
    )
  }

  /**
   * The id of the message that a failed event of a group is: in the group's queue, or among its dead letters.
   *
   * @returns undefined if the event is neither: not read yet, or handled.
   * @throws SluiceError as {@link list}
   *
   * @example
   * const id = await sluice.operate.streams.messageOf('orders', 'billing', 4711)
   * if (id !== undefined) await sluice.operate.deadLetters.redrive({ queue: 'orders:billing', ids: [id] })
   */
  async messageOf(stream: QueueName<Definitions>, group: string, position: number): Promise<string | undefined> {
    const [streamName, groupName] = this.#names(stream, group)
    const at = integerWithin('messageOf.position', position, 1, Number.MAX_SAFE_INTEGER)
    const queue = groupQueue({ stream: streamName, group: groupName })
    return this.#operations.count((execute) => readEventMessage(execute, queue, at))
  }

  /**
   * Pauses a group: nobody reads for it, and nobody tries its parked events, until {@link resume}. What is in hand goes on.
   *
   * @returns false if it was paused already.
   * @throws SluiceError GROUP_UNKNOWN, and as {@link group}
   */
  async pause(
    stream: QueueName<Definitions>,
    group: string,
    options: QueueChangeOptions & { readonly reason?: string | undefined } = {},
  ): Promise<boolean> {
    const by = byOf('pause', options, ['reason'])
    const reason = textOf(options.reason, 'pause.reason') ?? null
    return this.#ofQueue(stream, group, (execute, queue) => pauseQueue(execute, queue, by, reason), options.tx)
  }

  /** Ends the pause of a group. @returns false if it was not paused. @throws SluiceError as {@link pause} */
  async resume(stream: QueueName<Definitions>, group: string, options: QueueChangeOptions = {}): Promise<boolean> {
    const by = byOf('resume', options)
    return this.#ofQueue(stream, group, (execute, queue) => resumeQueue(execute, queue, by), options.tx)
  }

  /**
   * Deletes a group, with its parked events, its dead letters and what its queue was told. Waits for the batches that it has in
   * hand.
   *
   * @returns how many parked events and dead letters those were.
   * @throws SluiceError GROUP_UNKNOWN, and as {@link group}
   */
  async deleteGroup(
    stream: string,
    group: string,
  ): Promise<{ readonly messages: number; readonly deadLetters: number }> {
    const [streamName, groupName] = this.#names(stream, group)
    return this.#operations.administer((execute) => deleteGroup(execute, streamName, groupName))
  }

  /**
   * Events before a place count as gone at once; their segments are dropped later. It stops before what is not settled, and
   * before what a group has not read that keeps it, unless forced: a group that loses events so stands still until it is moved.
   *
   * @param options.force also what a group has not read that keeps it. @default false
   * @param options.dryRun only says what would be gone, and who holds it. It waits for nobody. @default false
   * @throws SluiceError STREAM_UNKNOWN, and as {@link group}
   *
   * @example const { events, heldBy } = await sluice.operate.streams.trim('orders', 'end', { dryRun: true })
   */
  async trim(
    stream: string,
    before: StreamPlace,
    options: { readonly force?: boolean | undefined; readonly dryRun?: boolean | undefined } = {},
  ): Promise<TrimResult> {
    checkKeys('trim', options, ['force', 'dryRun'], "As in trim('orders', { position: 4711 })")
    const [streamName, place] = [checkStreamName(stream, this.#definitions), placeOf(before, 'trim.before')]
    const how = {
      force: booleanOf(options.force, 'trim.force') ?? false,
      dryRun: booleanOf(options.dryRun, 'trim.dryRun') ?? false,
    }
    const work = async (execute: Execute) => {
      const starts = await readPositions(execute, streamName, place)
      return trimStream(execute, streamName, Math.min(...starts) + 1, how)
    }
    return this.#operations.administer(work)
  }

  /** @throws SluiceError OPTION_INVALID, STREAM_NAME_INVALID, STREAM_UNKNOWN */
  #names(stream: unknown, group: unknown): readonly [stream: string, group: string] {
    const groupName = checkGroupName('group', group)
    return [checkStreamName(stream, this.#definitions), groupName]
  }

  #ofGroup<T>(
    stream: string,
    group: string,
    work: (execute: Execute, stream: string, group: string) => Promise<T>,
  ): Promise<T> {
    const [streamName, groupName] = this.#names(stream, group)
    return this.#operations.change((execute) => work(execute, streamName, groupName))
  }

  #ofQueue<T>(
    stream: QueueName<Definitions>,
    group: string,
    work: (execute: Execute, queue: string) => Promise<T>,
    tx: unknown,
  ): Promise<T> {
    const [streamName, groupName] = this.#names(stream, group)
    return this.#operations.change(async (execute) => {
      await readGroup(execute, streamName, groupName)
      return work(execute, groupQueue({ stream: streamName, group: groupName }))
    }, tx)
  }
}

function onFailureOf(onFailure: unknown): OnFailure | null {
  if (onFailure === undefined || onFailure === 'park' || onFailure === 'stop') return onFailure ?? null
  throw expected('OPTION_INVALID', 'group.onFailure', "'park' or 'stop'", onFailure)
}

function parkedOf(parked: unknown): 'keep' | 'drop' | null {
  if (parked === undefined || parked === 'keep' || parked === 'drop') return parked ?? null
  throw expected('OPTION_INVALID', 'seek.parked', "'keep' or 'drop'", parked)
}

const READ_KEYS = ['from', 'to', 'orderingKey', 'type', 'limit', 'follow', 'signal'] as const
