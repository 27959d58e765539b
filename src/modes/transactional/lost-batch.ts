import { LOCK_NOT_AVAILABLE, stateSays } from '../../basics/errors/sql-state.ts'
import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import { errorText, SluiceError } from '../../errors.ts'
import type { Consumption } from '../../handle/consumption.ts'
import type { Outcome } from '../../message.ts'
import type { TransactionalPlan } from '../../plan/options.ts'
import { isRefusal, serverErrorOf } from '../../session/refusal.ts'
import type { AttemptRules } from '../../settings/attempt-rules.ts'
import { ASIDE, decide } from '../../settle/decide.ts'
import type { Settlement } from '../../settle/settlement.ts'
import { attemptRules } from '../../source/rules-of.ts'
import type { TransactionalSource } from '../../source/source.ts'
import type { Execute } from '../../table/statement.ts'
import { type LostTry, recordEvidence } from '../../table/worker/evidence.ts'
import type { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Connections } from '../../transaction/check-out.ts'
import { inOwnTransaction } from '../../transaction/own-transaction.ts'
import type { Runtime } from '../runtime.ts'

/**
 * What the loss of a transaction was counted as: a failed attempt of the one message that ran, which has been written; a
 * reason to try each of its messages in a transaction of its own; or nothing of theirs: the database or the way to it may
 * be the reason, and time is what helps.
 */
export type CountedAs = 'failed attempt' | 'runs alone' | 'nothing'

/** A batch whose transaction was lost: with its connection, at its settlement, or at COMMIT. */
export interface LostBatch {
  /** The messages whose handlers had been called. */
  readonly begun: readonly DeliveredMessage[]
  readonly batchId: number
  readonly connection: BatchConnection
  /** The session of the control connection when the batch was claimed. */
  readonly session: object | undefined
  readonly error: unknown
}

/**
 * Counts the loss of a transaction for the messages whose handlers ran in it, if they may be the reason. Not if the
 * control connection was lost too, or no new connection can be had: then the server or the network is the reason.
 *
 * Several messages: each is tried again in a transaction of its own. One message: the loss is its failed attempt, written
 * as the settlement would have been, so that backoff and `maxAttempts` apply. A connection that breaks while the server
 * says nothing may be the fault of a pooler or a network: it counts only when it has happened often enough in a row.
 *
 * All of it is one transaction on a new connection, which shows that the server accepts connections, and writes.
 */
export async function countLoss(
  runtime: Runtime,
  consumption: Consumption<TransactionalPlan>,
  source: TransactionalSource,
  lost: LostBatch,
): Promise<CountedAs> {
  if (lost.begun.length === 0 || !isSameSession(runtime, lost)) return 'nothing'
  try {
    return await runtime.apart((connections) => count({ runtime, consumption, source, lost, connections }))
  } catch {
    return 'nothing'
  }
}

/** A loss, and what it takes to count it. */
interface Counting {
  readonly runtime: Runtime
  readonly consumption: Consumption<TransactionalPlan>
  readonly source: TransactionalSource
  readonly lost: LostBatch
  /** New ones. */
  readonly connections: Connections
}

async function count(counting: Counting): Promise<CountedAs> {
  const { runtime, consumption, source, lost } = counting
  try {
    return await inTransaction(counting, (execute) => write(runtime, consumption, source, lost, execute))
  } catch (error) {
    if (!isRefusal(error) || !isOutOfAttempts(lost.begun[0], attemptRules(runtime, consumption.plan))) throw error
    return inTransaction(counting, (execute) => putAside(source, lost, execute))
  }
}

/** @param work settles the message, or else returns undefined */
async function inTransaction(
  { runtime, consumption, lost, connections }: Counting,
  work: (execute: Execute) => Promise<Settlement | undefined>,
): Promise<CountedAs> {
  const settlement = await inOwnTransaction(
    connections,
    async (execute) => {
      const written = await work(execute)
      if (!isSameSession(runtime, lost)) throw new SluiceError('UNREACHABLE', 'The control connection was lost as well')
      return written
    },
    ANSWER_MS,
  )
  if (settlement === undefined) return 'runs alone'
  settlement.reportAll(runtime.report)
  consumption.onSettled?.(settlement.settled)
  consumption.meter.settled(settlement.counts)
  return 'failed attempt'
}

function isSameSession({ control }: Runtime, { session }: LostBatch): boolean {
  return session !== undefined && control.session === session
}

/** A few index descents, and rows. */
const ANSWER_MS = 5_000

/** How many losses in a row, none of which the server has explained, count as an attempt. */
const SILENT_LOSSES = 3

/** Settles the message of a loss that counts, or else writes the evidence. */
async function write(
  runtime: Runtime,
  { plan }: Consumption<TransactionalPlan>,
  source: TransactionalSource,
  { begun, batchId, connection: broken, error }: LostBatch,
  execute: Execute,
): Promise<Settlement | undefined> {
  const reason = saidByServer(broken, error)
  const [message] = begun
  const counts = begun.length === 1 && (reason !== undefined || (message?.evidence?.losses ?? 0) + 1 >= SILENT_LOSSES)
  if (message !== undefined && counts) {
    const failed = reason ?? error
    const outcome = { kind: 'retryLater', error: errorText(failed) } as const
    const settlement = await settleAgain(source, message, outcome, failed, execute)
    if (settlement !== undefined) return settlement
  }
  const { workerId } = runtime.inHand
  const messageIds = begun.map(({ id }) => id)
  const lostTry =
    message !== undefined && counts ? await lostTryOf(runtime, message, reason ?? error, execute) : undefined
  await recordEvidence(execute, 'lost', { workerId, batchId, queue: plan.queue, messageIds, alone: counts, lostTry })
  return undefined
}

async function lostTryOf(
  { alphabet }: Runtime,
  message: DeliveredMessage,
  error: unknown,
  execute: Execute,
): Promise<LostTry> {
  const text = errorText(error)
  if (!alphabet.knows(text)) await alphabet.learn(execute, [text])
  return { attempt: message.attempt, error: alphabet.fit(text) }
}

/**
 * The message is out of attempts, and something keeps it from the dead letters: a policy, or a trigger. It comes again in
 * a minute, so that it does not keep the others.
 */
async function putAside(source: TransactionalSource, { begun }: LostBatch, execute: Execute) {
  const [message] = begun
  return message && settleAgain(source, message, ASIDE, undefined, execute)
}

/** Settles a message in another transaction; undefined if another one has it, or has settled it. */
async function settleAgain(
  source: TransactionalSource,
  message: DeliveredMessage,
  outcome: Outcome,
  error: unknown,
  execute: Execute,
): Promise<Settlement | undefined> {
  const settlement = await source.claimAgain(execute, message)
  if (settlement === undefined) return undefined
  settlement.put(decide(message, outcome, error, settlement.rules))
  // Another runner may have lost it at the same time.
  settlement.forgetEvidence(message)
  await settlement.learnTexts(execute)
  await settlement.write(execute)
  return settlement
}

function isOutOfAttempts(message: DeliveredMessage | undefined, rules: AttemptRules): boolean {
  return message !== undefined && message.attempt >= rules.mostOf(message)
}

/**
 * What the server said of the loss; undefined if it said nothing, or nothing about a row. A lock that was not to be had counts
 * as a reason: which locks the transaction waits for depends on what its handler has done.
 */
function saidByServer(connection: BatchConnection, error: unknown): Error | undefined {
  if (connection.lastWords !== undefined) return connection.lastWords
  if (connection.lost !== undefined || !(error instanceof Error)) return undefined
  const state = serverErrorOf(error)?.code
  return state !== LOCK_NOT_AVAILABLE && stateSays('ofTheServer', state) ? undefined : error
}
