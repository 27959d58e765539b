import { siteOf } from '../basics/errors/call-site.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { checkStreamName, type StreamDefinitions } from '../streams.ts'
import { appendEvent, appendEvents, type EventRow } from '../table/stream/append.ts'
import type { Sends } from '../telemetry/sends.ts'
import { checkAlphabet } from './alphabet-check.ts'
import { type AppendOptions, readAppendOptions } from './append-options.ts'
import { callFor } from './call.ts'
import { chunksOf, type Entry, namesAt, readList } from './read-list.ts'
import { ALONE, checkSize, type MessageNames, readPayload } from './read-payload.ts'
import { checkOrder, during, type TransactionHost, within } from './within.ts'

export interface AppendContext extends TransactionHost {
  readonly streams: StreamDefinitions | undefined
  readonly payloadLimitBytes: number
  /** The characters of the application's database. */
  readonly alphabet: Alphabet
  readonly sends: Sends
}

/** One event for {@link appendMany}: its payload, with its options beside it. */
export interface EventToAppend<Payload = unknown> extends AppendOptions {
  /** What the handlers get: a value that JSON can hold. */
  readonly payload: Payload
}

/**
 * Appends one event in the caller's transaction and returns its position. All input is checked first, as by `enqueue`.
 *
 * @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN, OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE,
 * PAYLOAD_SCHEMA, EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION, SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING
 */
export function appendOne(
  context: AppendContext,
  tx: unknown,
  stream: string,
  payload: unknown,
  options?: AppendOptions,
): Promise<number> {
  return during(tx, appendRow(context, tx, stream, { payload, options }))
}

async function appendRow(context: AppendContext, tx: unknown, stream: string, entry: Entry): Promise<number> {
  checkOrder(tx, stream, 'append(tx, stream, payload)')
  const name = checkStreamName(stream, context.streams)
  const read = readEvent(context, name, entry, ALONE)
  const call = callFor(`an append to stream ${name}`, read)
  const row = read instanceof Promise ? await read : read
  const [position] = await context.sends.run('append', name, [row], (rows) =>
    within(context, tx, call, async (execute) => {
      await checkAlphabet(context.alphabet, execute, rows, () => ALONE)
      return [await appendEvent(execute, name, rows[0]!)]
    }),
  )
  return position!
}

/**
 * Appends events to one stream, in their order, and returns their positions, which ascend. Thousands take one statement;
 * more than 32 MiB of JSON take several, in the same transaction. An empty list does not touch the database.
 *
 * @throws SluiceError as {@link appendOne}, naming the event: "events[3].type: …"
 */
export function appendMany(
  context: AppendContext,
  tx: unknown,
  stream: string,
  events: readonly EventToAppend[],
): Promise<number[]> {
  return during(tx, appendRows(context, tx, stream, events))
}

async function appendRows(
  context: AppendContext,
  tx: unknown,
  stream: string,
  events: readonly EventToAppend[],
): Promise<number[]> {
  checkOrder(tx, stream, 'append(tx, stream, payload)')
  const name = checkStreamName(stream, context.streams)
  const call = { words: `an append to stream ${name}`, site: siteOf() }
  const rows = await readList(EVENTS, events, (entry, names) => readEvent(context, name, entry, names))
  if (rows.length === 0) return []
  return context.sends.run('append', name, rows, (marked) =>
    within(context, tx, call, async (execute) => {
      await checkAlphabet(context.alphabet, execute, marked, (at) => namesAt(EVENTS.name, at))
      const positions: number[] = []
      for (const chunk of chunksOf(marked)) {
        // Not push(...appended): a call takes at most some 125,000 arguments.
        for (const position of await appendEvents(execute, name, chunk)) positions.push(position)
      }
      return positions
    }),
  )
}

export const EVENTS = { name: 'events', remedy: "As in [{ payload: … }, { payload: …, orderingKey: 'customer 7' }]" }

/** An event as it is stored. @throws SluiceError OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE, PAYLOAD_SCHEMA */
export function readEvent(
  { streams, payloadLimitBytes }: Pick<AppendContext, 'streams' | 'payloadLimitBytes'>,
  stream: string,
  entry: Entry,
  names: MessageNames,
): EventRow | Promise<EventRow> {
  const labels = readAppendOptions(entry.options, names.options)
  checkSize(labels.headers, `${names.options}.headers`, payloadLimitBytes)
  const target = { name: `stream ${stream}`, definition: streams?.[stream], payloadLimitBytes }
  const payload = readPayload(target, entry.payload, names.payload)
  return typeof payload === 'string' ? { ...labels, payload } : payload.then((text) => ({ ...labels, payload: text }))
}
