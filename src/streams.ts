import { definedName } from './basics/defined-name.ts'
import { expected } from './errors.ts'
import type { QueueDefinition } from './queues.ts'

/** The streams that an application knows, by name, defined as queues are. With them, other names are refused. */
export type StreamDefinitions = Readonly<Record<string, QueueDefinition>>

/** The same rule as the table's constraint: with a ':' and the name of a group it is the name of a queue. */
const STREAM_NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,48}$/

/**
 * Returns the name if a stream can have it and, where streams are defined, if it is one of those.
 *
 * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN
 */
export function checkStreamName(name: unknown, definitions: StreamDefinitions | undefined): string {
  if (typeof name === 'string' && STREAM_NAME.test(name))
    return definedName(name, definitions, 'stream', 'STREAM_UNKNOWN')
  const wanted = 'a name of 1 to 49 letters, digits and _ . - (none of . - first)'
  throw expected('STREAM_NAME_INVALID', 'stream', wanted, name, "For example 'orders' or 'orders.paid'")
}

/**
 * Returns the name if a group can have it: the rule is that of streams.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function checkGroupName(what: string, name: unknown): string {
  if (typeof name === 'string' && STREAM_NAME.test(name)) return name
  throw expected('OPTION_INVALID', what, 'a name of 1 to 49 letters, digits and _ . - (none of . - first)', name)
}

/** The queue of a group: its failed events, and those that wait behind them. */
export function groupQueue({ stream, group }: { readonly stream: string; readonly group: string }): string {
  return `${stream}:${group}`
}

/** The stream of a group's queue. */
export function streamOf(queue: string): string {
  return queue.slice(0, queue.indexOf(':'))
}
