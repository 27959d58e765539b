import { definedName } from './basics/checks/defined-name.ts'
import { expected } from './errors.ts'
import { checkQueueName, type QueueDefinition, type QueueDefinitions } from './queues.ts'

/** The streams that an application knows, by name, defined as queues are. With them, other names are refused. */
export type StreamDefinitions = Readonly<Record<string, QueueDefinition>>

/** The same rule as the table's constraint: with a ':' and the name of a group it is the name of a queue. */
const STREAM_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,48}$/
const WANTED = 'a name of 1 to 49 letters, digits and _ . - (none of . - first)'

/**
 * Returns the name if a stream can have it and, where streams are defined, if it is one of those.
 *
 * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN
 */
export function checkStreamName(name: unknown, definitions: StreamDefinitions | undefined): string {
  if (typeof name === 'string' && STREAM_NAME.test(name))
    return definedName(name, definitions, 'stream', 'STREAM_UNKNOWN')
  throw expected('STREAM_NAME_INVALID', 'stream', WANTED, name, "For example 'orders' or 'orders.paid'")
}

/**
 * Returns the name if a group can have it: the rule is that of streams.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function checkGroupName(what: string, name: unknown): string {
  if (typeof name === 'string' && STREAM_NAME.test(name)) return name
  throw expected('OPTION_INVALID', what, WANTED, name, "For example 'billing'")
}

/**
 * Refuses a name that the application has defined as that of a stream, or of a group's queue, where another queue is wanted.
 *
 * @throws SluiceError QUEUE_UNKNOWN
 */
export function refuseStream(name: unknown, { definitions, streams }: KnownNames, remedy: string): void {
  if (typeof name !== 'string' || streams === undefined) return
  if (definitions !== undefined && Object.hasOwn(definitions, name)) return
  const isStream = Object.hasOwn(streams, name)
  // Where no queues are defined, the server knows whether there is such a group.
  const isOfGroup = definitions !== undefined && name.includes(':') && Object.hasOwn(streams, streamOf(name))
  if (!isStream && !isOfGroup) return
  const what = isStream ? 'a stream' : `the queue of a group of ${streamOf(name)}`
  throw expected('QUEUE_UNKNOWN', 'queue', 'the name of a queue', name, `That is ${what}: ${remedy}`)
}

/**
 * Returns the name of what a consumer with these options consumes: with a group it is that of a stream.
 *
 * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, STREAM_NAME_INVALID, STREAM_UNKNOWN
 */
export function checkConsumedName(name: string, options: object | undefined, known: KnownNames): string {
  const group = typeof options === 'object' && options !== null && 'group' in options ? options.group : undefined
  if (group !== undefined) return checkStreamName(name, known.streams)
  refuseStream(name, known, "give the group that reads it, as in { group: 'billing' }")
  return checkQueueName(name, known.definitions)
}

/** A group of a stream, by their names. */
export interface StreamGroup<Stream extends string = string> {
  readonly stream: Stream
  readonly group: string
}

/** The queue of a group: its failed events, and those that wait behind them. */
export function groupQueue({ stream, group }: StreamGroup): string {
  return `${stream}:${group}`
}

/** The queues that operators know: those that are defined, and those of the groups of the streams that are defined. */
export type WithGroupQueues<
  Definitions extends QueueDefinitions | undefined,
  Streams extends StreamDefinitions | undefined,
> = Definitions extends QueueDefinitions
  ? Streams extends StreamDefinitions
    ? Definitions & GroupQueues<Streams>
    : Definitions
  : undefined

/** Their messages are events of the stream. */
type GroupQueues<Streams extends StreamDefinitions> = {
  readonly [Name in Extract<keyof Streams, string> as `${Name}:${string}`]: Streams[Name]
}

/** What an application has defined. */
export interface KnownNames {
  readonly definitions: QueueDefinitions | undefined
  readonly streams: StreamDefinitions | undefined
}

/**
 * Returns the name of a queue that may be operated: where queues are defined it is one of those, or that of a group.
 *
 * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN
 */
export function checkOperatedQueue(name: unknown, { definitions, streams }: KnownNames): string {
  const isOfGroup =
    typeof name === 'string' && streams !== undefined && name.includes(':') && Object.hasOwn(streams, streamOf(name))
  return checkQueueName(name, isOfGroup ? undefined : definitions)
}

/** The stream of a group's queue. */
export function streamOf(queue: string): string {
  return queue.slice(0, queue.indexOf(':'))
}
