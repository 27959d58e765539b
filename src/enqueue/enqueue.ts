import { siteOf } from '../basics/errors/call-site.ts'
import { SluiceError } from '../errors.ts'
import type { Dedupe, DedupedOptions, EnqueueOptions } from '../message-options.ts'
import { checkQueueName } from '../queues.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { type KnownNames, refuseStream } from '../streams.ts'
import { insertMessage, insertMessages, notTaken } from '../table/enqueue/insert.ts'
import {
  type DedupedRow,
  type EnqueueResult,
  insertAllDeduped,
  insertDeduped,
} from '../table/enqueue/insert-deduped.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { Execute } from '../table/statement.ts'
import type { Sends } from '../telemetry/sends.ts'
import { checkAlphabet, mayHoldForeign } from './alphabet-check.ts'
import { callFor } from './call.ts'
import { chunksOf, namesAt, readList } from './read-list.ts'
import { type MessageRules, readMessage } from './read-message.ts'
import { ALONE } from './read-payload.ts'
import { checkOrder, during, type TransactionHost, within } from './within.ts'

export interface EnqueueContext extends MessageRules, KnownNames, TransactionHost {
  /** The characters of the application's database. */
  readonly alphabet: Alphabet
  readonly sends: Sends
}

/** One message for {@link enqueueMany}: its payload, with its options beside it. */
export interface MessageToEnqueue<Payload = unknown> extends EnqueueOptions {
  /** What the handler gets: a value that JSON can hold. */
  readonly payload: Payload
}

/** One message with a dedupe key for {@link enqueueMany}. */
export interface DedupedMessage<Payload = unknown> extends DedupedOptions {
  /** What the handler gets: a value that JSON can hold. */
  readonly payload: Payload
}

/**
 * The messages of {@link enqueueMany}, whose dedupe keys are of the type `Key`, as in {@link OptionsWith}. `map` keeps literal
 * types only by the second part, in which nothing is inferred.
 */
export type MessagesWith<Payload, Key extends Dedupe | undefined> = readonly MessageWith<Payload, Key>[] &
  readonly (MessageToEnqueue<Payload> | DedupedMessage<Payload>)[]

type MessageWith<Payload, Key extends Dedupe | undefined> = [Key] extends [never]
  ? { readonly dedupe: Key }
  : Key extends Dedupe
    ? DedupedMessage<Payload>
    : MessageToEnqueue<Payload>

/**
 * Enqueues one message in the caller's transaction and returns its id; with a dedupe key, what became of it. All input is
 * checked first: a refused message has written nothing and leaves the transaction as it was.
 *
 * @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN, OPTION_INVALID, PAYLOAD_INVALID, PAYLOAD_TOO_LARGE,
 * PAYLOAD_SCHEMA, EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION, SCHEMA_MISSING, SCHEMA_TOO_OLD, PRIVILEGE_MISSING
 */
export function enqueueOne(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  payload: unknown,
  options?: EnqueueOptions,
): Promise<string>
export function enqueueOne(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  payload: unknown,
  options?: EnqueueOptions | DedupedOptions,
): Promise<string | EnqueueResult>
export function enqueueOne(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  payload: unknown,
  options?: EnqueueOptions | DedupedOptions,
): Promise<string | EnqueueResult> {
  return during(tx, insertOne(context, tx, queue, payload, options))
}

async function insertOne(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  payload: unknown,
  options: EnqueueOptions | DedupedOptions | undefined,
): Promise<string | EnqueueResult> {
  checkOrder(tx, queue, 'enqueue(tx, queue, payload)')
  refuseStream(queue, context, 'take append() or appendMany()')
  const name = checkQueueName(queue, context.definitions)
  const read = readMessage(context, name, { payload, options }, ALONE)
  const call = callFor(`an enqueue to queue ${name}`, read)
  const row = read instanceof Promise ? await read : read
  const [answer] = await context.sends.run('enqueue', name, [row], (rows) =>
    within(context, tx, call, (execute) =>
      mayHoldForeign(context.alphabet, row)
        ? checkAlphabet(context.alphabet, execute, rows, () => ALONE).then(() => insert(execute, name, rows[0]!))
        : insert(execute, name, rows[0]!),
    ),
  )
  return answer!
}

async function insert(execute: Execute, queue: string, row: InsertRow): Promise<[string | EnqueueResult]> {
  if (!isDeduped(row)) return [await insertMessage(execute, queue, row)]
  return [taken(queue, [await insertDeduped(execute, queue, row)])[0]!]
}

function isDeduped(row: InsertRow): row is DedupedRow {
  return row.dedupe !== null
}

function taken(queue: string, results: readonly (EnqueueResult | undefined)[]): readonly EnqueueResult[] {
  const known = results.filter((result) => result !== undefined)
  if (known.length < results.length) throw notTaken(queue, results.length, known.length)
  return known
}

/**
 * Enqueues messages into one queue, in their order, and returns their ids in that order. Thousands take one statement;
 * more than 32 MiB of JSON take several, in the same transaction. An empty list does not touch the database.
 *
 * @throws SluiceError as {@link enqueueOne}, naming the message: "messages[3].priority: …"
 */
export function enqueueMany(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  messages: readonly MessageToEnqueue[],
): Promise<string[]>
export function enqueueMany(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  messages: readonly (MessageToEnqueue | DedupedMessage)[],
): Promise<(string | EnqueueResult)[]>
export function enqueueMany(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  messages: readonly (MessageToEnqueue | DedupedMessage)[],
): Promise<(string | EnqueueResult)[]> {
  return during(tx, insertMany(context, tx, queue, messages))
}

async function insertMany(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  messages: readonly (MessageToEnqueue | DedupedMessage)[],
): Promise<(string | EnqueueResult)[]> {
  checkOrder(tx, queue, 'enqueue(tx, queue, payload)')
  refuseStream(queue, context, 'take append() or appendMany()')
  const name = checkQueueName(queue, context.definitions)
  const call = { words: `an enqueue to queue ${name}`, site: siteOf() }
  const rows = await readList(MESSAGES, messages, (entry, names) => readMessage(context, name, entry, names))
  if (rows.length === 0) return []
  checkAllDeduped(rows)
  return context.sends.run('enqueue', name, rows, (marked) =>
    within(context, tx, call, async (execute) => {
      await checkAlphabet(context.alphabet, execute, marked, (at) => namesAt(MESSAGES.name, at))
      return insertAll(execute, name, marked)
    }),
  )
}

/** An answer is a string or an object, for all of them. */
function checkAllDeduped(rows: readonly InsertRow[]): void {
  const deduped = rows.filter(isDeduped).length
  if (deduped === 0 || deduped === rows.length) return
  const sentence = `messages: expected dedupe in all of them or in none, received it in ${deduped} of ${rows.length}`
  throw new SluiceError('OPTION_INVALID', `${sentence}. Enqueue the others in a call of their own`)
}

const MESSAGES = { name: 'messages', remedy: "As in [{ payload: … }, { payload: …, delay: '5m' }]" }

async function insertAll(
  execute: Execute,
  queue: string,
  rows: readonly InsertRow[],
): Promise<(string | EnqueueResult)[]> {
  const answers: (string | EnqueueResult)[] = []
  for (const chunk of chunksOf(rows)) {
    const inserted = chunk.every(isDeduped)
      ? taken(queue, await insertAllDeduped(execute, queue, chunk))
      : await insertMessages(execute, queue, chunk)
    // Not push(...answers): a call takes at most some 125,000 arguments.
    for (const answer of inserted) answers.push(answer)
  }
  return answers
}
