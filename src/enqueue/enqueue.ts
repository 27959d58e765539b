import { hasSqlState, IN_FAILED_TRANSACTION, INSUFFICIENT_PRIVILEGE } from '../basics/sql-state.ts'
import { wordsOf } from '../basics/words-of.ts'
import { privilegeMissing } from '../connection/privilege.ts'
import { expected, SluiceError } from '../errors.ts'
import { checkQueueName } from '../queues.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { insertMessage, insertMessages } from '../table/enqueue/insert.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { Execute } from '../table/statement.ts'
import { checkAlphabet, mayHoldForeign } from './alphabet-check.ts'
import { transactionFailed } from './clients/not-in-transaction.ts'
import type { EnqueueOptions } from './options.ts'
import { DURING } from './own-symbols.ts'
import { type MessageNames, type MessageRules, readMessage } from './read-message.ts'
import { executorOf } from './transaction.ts'

/** Give this instead of a transaction to enqueue in one of Sluice's own, committed when `enqueue` returns. */
export const ownTransaction: unique symbol = Symbol.for('sluice.ownTransaction')

export interface EnqueueContext extends MessageRules {
  /** The characters of the application's database. */
  readonly alphabet: Alphabet
  readonly inOwnTransaction: <T>(work: (execute: Execute) => Promise<T>) => Promise<T>
}

/** One message for {@link enqueueMany}: its payload, with its options beside it. */
export interface MessageToEnqueue<Payload = unknown> extends EnqueueOptions {
  /** What the handler gets: a value that JSON can hold. */
  readonly payload: Payload
}

/**
 * Enqueues one message in the caller's transaction and returns its id. All input is checked first: a refused message
 * has written nothing and leaves the transaction as it was.
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
): Promise<string> {
  return during(tx, insertOne(context, tx, queue, payload, options))
}

async function insertOne(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  payload: unknown,
  options: EnqueueOptions | undefined,
): Promise<string> {
  checkOrder(tx, queue)
  const name = checkQueueName(queue, context.definitions)
  const read = readMessage(context, name, { payload, options }, ALONE)
  const row = read instanceof Promise ? await read : read
  return await within(context, tx, (execute) =>
    mayHoldForeign(context.alphabet, row)
      ? checkAlphabet(context.alphabet, execute, [row], () => ALONE).then(() => insertMessage(execute, name, row))
      : insertMessage(execute, name, row),
  )
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
): Promise<string[]> {
  return during(tx, insertMany(context, tx, queue, messages))
}

async function insertMany(
  context: EnqueueContext,
  tx: unknown,
  queue: string,
  messages: readonly MessageToEnqueue[],
): Promise<string[]> {
  checkOrder(tx, queue)
  const name = checkQueueName(queue, context.definitions)
  const rows = await readMessages(context, name, messages)
  if (rows.length === 0) return []
  return within(context, tx, async (execute) => {
    if (rows.some((row) => mayHoldForeign(context.alphabet, row)))
      await checkAlphabet(context.alphabet, execute, rows, namesAt)
    return insertAll(execute, name, rows)
  })
}

/** Tells a handler's transaction that an enqueue has begun, so that Sluice waits for it if the handler does not. */
function during<T>(tx: unknown, work: Promise<T>): Promise<T> {
  return isOurs(tx) ? tx[DURING](work) : work
}

interface Ours {
  [DURING]<T>(work: Promise<T>): Promise<T>
}

function isOurs(tx: unknown): tx is Ours {
  return typeof tx === 'object' && tx !== null && DURING in tx && typeof tx[DURING] === 'function'
}

/** A caller who forgets the transaction passes the queue as the first argument. */
function checkOrder(tx: unknown, queue: unknown): void {
  if (typeof tx !== 'string' || typeof queue === 'string') return
  const remedy = 'As in enqueue(tx, queue, payload)'
  throw expected('EXECUTOR_UNKNOWN', 'tx', 'an open transaction as the first argument', tx, remedy)
}

const ALONE: MessageNames = { payload: 'payload', options: 'options' }

function namesAt(at: number): MessageNames {
  return { payload: `messages[${at}].payload`, options: `messages[${at}]` }
}

const AS_MESSAGES = "As in [{ payload: … }, { payload: …, delay: '5m' }]"

async function readMessages(rules: MessageRules, queue: string, messages: unknown): Promise<readonly InsertRow[]> {
  if (!Array.isArray(messages))
    throw expected('OPTION_INVALID', 'messages', 'an array of messages', messages, AS_MESSAGES)
  const list: readonly unknown[] = messages
  const rows: InsertRow[] = []
  for (const [at, message] of list.entries()) {
    const names = namesAt(at)
    if (typeof message !== 'object' || message === null) {
      throw expected('OPTION_INVALID', names.options, 'an object with a payload and options', message, AS_MESSAGES)
    }
    if (!('payload' in message)) {
      const sentence = `${names.options}: expected an object with a payload, received one without`
      throw new SluiceError('PAYLOAD_INVALID', `${sentence}. ${AS_MESSAGES}`)
    }
    const { payload, ...given }: Readonly<Record<string, unknown>> = { ...message }
    const options = Object.keys(given).length === 0 ? undefined : given
    const row = readMessage(rules, queue, { payload, options }, names)
    rows.push(row instanceof Promise ? await row : row)
  }
  return rows
}

/** Does the work in the caller's transaction, or in one of its own. */
async function within<T>(context: EnqueueContext, tx: unknown, work: (execute: Execute) => Promise<T>): Promise<T> {
  try {
    if (tx === ownTransaction) return await context.inOwnTransaction(work)
    const found = executorOf(tx)
    return await work(found instanceof Promise ? await found : found)
  } catch (error) {
    throw explained(error)
  }
}

async function insertAll(execute: Execute, queue: string, rows: readonly InsertRow[]): Promise<string[]> {
  const ids: string[] = []
  for (const chunk of chunksOf(rows)) {
    // Not push(...ids): a call takes at most some 125,000 arguments.
    for (const id of await insertMessages(execute, queue, chunk)) ids.push(id)
  }
  return ids
}

/** Far below the limit of a jsonb array (256 MB), even in UTF-8, and small enough for the server to parse in memory. */
const STATEMENT_BYTES = 32 * 1024 * 1024

function* chunksOf(rows: readonly InsertRow[]): Generator<readonly InsertRow[]> {
  let start = 0
  let size = 0
  for (const [at, { payload, headers }] of rows.entries()) {
    size += payload.length + headers.length
    if (size > STATEMENT_BYTES && at > start) {
      yield rows.slice(start, at)
      start = at
      size = payload.length + headers.length
    }
  }
  yield rows.slice(start)
}

/** A SluiceError if the server's refusal has only one meaning here, otherwise the error as it came. */
function explained(error: unknown): unknown {
  if (error instanceof SluiceError) return error
  if (hasSqlState(error, IN_FAILED_TRANSACTION)) return transactionFailed(error)
  if (hasSqlState(error, INSUFFICIENT_PRIVILEGE)) return privilegeMissing('sluice_producer', error)
  if (hasSqlState(error, '42883')) return functionMissing(error)
  if (!hasSqlState(error, '42P01') && !hasSqlState(error, '3F000')) return error
  return new SluiceError('SCHEMA_MISSING', 'The database has no schema "sluice". Run `npx sluice migrate`', {
    cause: error,
  })
}

function functionMissing(cause: unknown): SluiceError {
  return new SluiceError(
    'SCHEMA_TOO_OLD',
    `Schema "sluice" is too old: ${wordsOf(cause)}. Run \`npx sluice migrate\``,
    {
      cause,
    },
  )
}
