import { checkKeys } from '../../basics/checks/check-keys.ts'
import { expected, SluiceError } from '../../errors.ts'
import type { InputOf, QueueName } from '../../queues.ts'
import type { StreamDefinitions } from '../../streams.ts'
import type { Execute } from '../../table/statement.ts'
import { type TrimResult, trimStream } from '../../table/stream/change-groups.ts'
import { defineStream } from '../../table/stream/define-stream.ts'
import { readPositions } from '../../table/stream/read-events.ts'
import { readStreams, type StreamStatus } from '../../table/stream/stream-status.ts'
import type { Operations } from '../operations.ts'
import { count, flag, readFields, text } from '../options.ts'
import type { ReadOptions } from './read-options.ts'
import { StreamEvents } from './stream-events.ts'
import { offsetOf, offsetOr, type StreamOffset } from './stream-offset.ts'
import { type ReadPlan, streamPages } from './stream-pages.ts'
import { columnsOf, type StreamChangeOptions, type StreamSettings } from './stream-settings.ts'

/** `sluice.streams`, and `sluice.operate.streams` */
export type Streams<Definitions extends StreamDefinitions | undefined = undefined> = {
  /**
   * Makes a stream, or changes its settings. Call it at every start: settings that are not given stay as they are.
   * Partitions change only while the stream has no events.
   *
   * @param name 1 to 49 letters, digits and _ . -
   * @returns whether it was made.
   * @throws SluiceError as {@link Operate}, and STREAM_PARTITIONS_FIXED
   *
   * @example await sluice.streams.set('orders', { retain: '30d' })
   */
  set(name: QueueName<Definitions>, settings?: StreamSettings, options?: StreamChangeOptions): Promise<boolean>

  /**
   * Streams by name: how many events they have, how long those are kept, and which open appends block their readers.
   *
   * @throws SluiceError as {@link Operate}
   */
  list(options?: { readonly stream?: QueueName<Definitions> | undefined }): Promise<readonly StreamStatus[]>

  /**
   * Events of a stream in the order of their positions, without a group, as an AsyncIterable and an Observable. It ends
   * at the end of the stream as of when it begins, or follows. Each call reads for itself, and stores no progress. It
   * reads below the first append that is still open, so that no event appears before one that it has given.
   *
   * @throws SluiceError OPTION_INVALID, STREAM_NAME_INVALID, STREAM_UNKNOWN; while it reads, as {@link Operate}
   *
   * @example for await (const event of sluice.streams.read('orders', { from: { position: 4711 } })) project(event)
   */
  read<Name extends QueueName<Definitions>>(
    stream: Name,
    options?: ReadOptions,
  ): StreamEvents<InputOf<Definitions, Name>>

  /**
   * Makes events before an offset count as gone at once; their segments are dropped later. It stops at open appends,
   * and at events that a group has not read and that are kept for it, unless forced: a group that loses events reads
   * nothing until a seek.
   *
   * @param options.force also takes events that a group has not read. @default false
   * @param options.dryRun only returns what would be gone, and which groups hold it back. It waits for no lock. @default false
   * @throws SluiceError as {@link Operate}
   *
   * @example const { events, heldBy } = await sluice.streams.trim('orders', 'end', { dryRun: true })
   */
  trim(
    stream: QueueName<Definitions>,
    before: StreamOffset,
    options?: { readonly force?: boolean | undefined; readonly dryRun?: boolean | undefined },
  ): Promise<TrimResult>
}

/** Answers the calls of {@link Streams}. */
export class StreamsInDatabase implements Streams {
  readonly #operations: Operations

  constructor(operations: Operations) {
    this.#operations = operations
  }

  async set(name: string, settings: StreamSettings = {}, options: StreamChangeOptions = {}): Promise<boolean> {
    checkKeys('options', options, ['tx'], 'As in streams.set(name, settings, { tx })')
    const stream = this.#operations.stream(name)
    const columns = columnsOf(settings)
    return this.#operations.administer((execute) => defineStream(execute, stream, columns), options.tx)
  }

  async list(options: { readonly stream?: string | undefined } = {}): Promise<readonly StreamStatus[]> {
    const readers = { stream: this.#operations.streamOrNull }
    const { stream } = readFields('streams.list', options, readers, "As in streams.list({ stream: 'orders' })")
    return this.#operations.count((execute) => readStreams(execute, stream))
  }

  read<Name extends string>(stream: Name, options: ReadOptions = {}): StreamEvents<InputOf<undefined, Name>> {
    const plan = planOf(options, this.#operations.stream(stream))
    const reading = <T>(work: (execute: Execute) => Promise<T>) => this.#operations.read(work)
    return new StreamEvents(async function* (until) {
      yield* streamPages(plan, reading, until)
    }, options.signal)
  }

  async trim(
    stream: string,
    before: StreamOffset,
    options: { readonly force?: boolean | undefined; readonly dryRun?: boolean | undefined } = {},
  ): Promise<TrimResult> {
    const remedy = "As in streams.trim('orders', { position: 4711 })"
    const how = readFields('streams.trim', options, { force: flag, dryRun: flag }, remedy)
    const [name, upTo] = [this.#operations.stream(stream), offsetOf(before, 'streams.trim.before')]
    return this.#operations.administer(async (execute) => {
      const starts = await readPositions(execute, name, upTo)
      return trimStream(execute, name, Math.min(...starts) + 1, how)
    })
  }
}

/** @throws SluiceError OPTION_INVALID */
function planOf(options: ReadOptions, stream: string): ReadPlan {
  const { signal: _, ...plan } = readFields(
    'streams.read',
    options,
    READ,
    "As in streams.read('orders', { from: 'start' })",
  )
  if (!plan.follow || options.to === undefined) return { ...plan, stream }
  const sentence = 'streams.read.to: expected none with follow, received one'
  throw new SluiceError('OPTION_INVALID', `${sentence}. Leave one of the two out`)
}

const READ = {
  from: offsetOr('start'),
  to: offsetOr('end'),
  orderingKey: text,
  type: text,
  limit: count(Number.POSITIVE_INFINITY, 1, Number.MAX_SAFE_INTEGER),
  follow: flag,
  signal,
}

function signal(value: unknown, what: string): AbortSignal | undefined {
  if (value === undefined || value instanceof AbortSignal) return value
  throw expected('OPTION_INVALID', what, 'an AbortSignal', value)
}
