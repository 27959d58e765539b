import { setTimeout as pause } from 'node:timers/promises'
import {
  type BatchHandler,
  deadLetter,
  type Handler,
  type HandlerTransaction,
  type Outcome,
  retryLater,
  snooze,
} from '../../src/index.ts'
import { deliveryOf, type LoadPayload } from '../ledger.ts'
import { block } from './block.ts'
import type { HeldHandlers } from './held-handlers.ts'
import type { LedgerWriter } from './ledger-writer.ts'
import type { Moment, WorkerSetup } from './worker-orders.ts'

export interface LoadHandlersOptions {
  readonly setup: WorkerSetup
  readonly ledger: LedgerWriter
  readonly held: HeldHandlers
}

/** What the handlers of a worker do: they keep books about what they begin and what they do, and die where they are told to. */
export class LoadHandlers {
  readonly #options: LoadHandlersOptions
  #fatal: { readonly at: Moment; readonly signal: NodeJS.Signals } | undefined

  constructor(options: LoadHandlersOptions) {
    this.#options = options
  }

  /** The process sends itself this signal when it comes to that moment. */
  dieAt(at: Moment, signal: NodeJS.Signals): void {
    this.#fatal = { at, signal }
  }

  reach(moment: Moment): void {
    if (this.#fatal?.at !== moment) return
    const { signal } = this.#fatal
    this.#fatal = undefined
    process.kill(process.pid, signal)
  }

  readonly handle: Handler<LoadPayload> = async (message, { tx, attempt, signal }) => {
    const { payload, position, queue } = message
    const { held } = this.#options
    const id = payload.of ?? (position === null ? message.id : deliveryOf(position, queue))
    await this.#begin(id, attempt, signal, message.headers.traceparent)
    // It is for those who can wait without a transaction.
    if (payload.fate === 'hold' && !held.goes(id, attempt)) return snooze({ after: AGAIN_MS })
    await this.#leaveEffect(tx, id, attempt, payload)
    if (position !== null && payload.fate === 'die' && attempt >= 2) return deadLetter('failed')
    return meet(payload, attempt)
  }

  /** The same in leased mode: what is written, and the end of the message, are one transaction of the handler's. */
  readonly handleLeased: Handler<LoadPayload, undefined, 'leased'> = async (message, context) => {
    const { id, payload } = message
    const { transaction, attempt, signal } = context
    const { setup, ledger, held } = this.#options
    await this.#begin(id, attempt, signal, message.headers.traceparent)
    // From here on without a look at its signal: whoever has lost a lease may be the last to know.
    if (payload.fate === 'hold') await held.untilGo(id, attempt)
    const outcome = meet(payload, attempt)
    if (outcome !== undefined) return outcome
    if (setup.effects === 'elsewhere') await ledger.write(EFFECT, [id, setup.name, attempt])
    else await transaction((tx) => this.#leaveEffect(tx, id, attempt, payload))
    return undefined
  }

  /** A batch in one call: for floods, of which each message succeeds at once. */
  readonly handleAll: BatchHandler = async (messages, { tx, signal }) => {
    const values = await this.#beginAll(messages, signal)
    await this.#leaveAll(tx, values)
  }

  readonly handleAllLeased: BatchHandler<unknown, undefined, 'leased'> = async (messages, { transaction, signal }) => {
    const values = await this.#beginAll(messages, signal)
    await transaction((tx) => this.#leaveAll(tx, values))
  }

  async #begin(id: string, attempt: number, signal: AbortSignal, traceparent: unknown): Promise<void> {
    const { setup, ledger } = this.#options
    const values = [id, setup.name, attempt, traceparent]
    await ledger.write(STARTED, values, signal)
    this.reach('handling')
    if (setup.lingerMs !== undefined) await pause(setup.lingerMs)
  }

  async #leaveEffect(tx: HandlerTransaction, id: string, attempt: number, { fate }: LoadPayload): Promise<void> {
    await tx.query(EFFECT, [id, this.#options.setup.name, attempt])
    this.reach('effects')
    if (fate === 'sever') await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
    if (fate === 'careless') await tx.query(LEFT_BEHIND)
  }

  async #beginAll(messages: Begun, signal: AbortSignal): Promise<unknown[]> {
    const { setup, ledger } = this.#options
    const values = [messages.map(({ id }) => id), setup.name, messages.map(({ attempt }) => attempt)]
    await ledger.write(`INSERT INTO ledger.started (message_id, worker, attempt) ${GIVEN}`, values, signal)
    this.reach('handling')
    return values
  }

  async #leaveAll(tx: HandlerTransaction, values: unknown[]): Promise<void> {
    await tx.query(`INSERT INTO ledger.effect (message_id, worker, attempt) ${GIVEN}`, values)
    this.reach('effects')
  }
}

type Begun = readonly { readonly id: string; readonly attempt: number }[]

function meet({ fate, failures, afterMs }: LoadPayload, attempt: number): Outcome | undefined {
  if (fate === 'poison') process.kill(process.pid, 'SIGKILL')
  if (fate === 'block') block(BLOCK_MS)
  const fails = fate === 'die' || ((fate === 'fail' || fate === 'hold') && attempt <= failures)
  if (fails && afterMs) return retryLater({ after: afterMs })
  if (fails) throw new Error(`fails with attempt ${attempt}`)
  return undefined
}

/** What a blocked event loop is blocked for: longer than any transaction of this fleet may last. */
const BLOCK_MS = 3_500

/** The second handler to create the table on a connection fails, and so does whoever writes there in a transaction begun later. */
const LEFT_BEHIND =
  'CREATE TEMP TABLE left_behind (); SET search_path = nowhere; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'

const STARTED =
  'INSERT INTO ledger.started (message_id, worker, attempt, trace) VALUES ($1, $2, $3, substring($4::text FROM 4 FOR 32))'

const EFFECT = 'INSERT INTO ledger.effect (message_id, worker, attempt) VALUES ($1, $2, $3)'

/** How soon a transactional handler is asked again about a message that is held. */
const AGAIN_MS = 50

const GIVEN = 'SELECT given.id, $2, given.attempt FROM unnest($1::bigint[], $3::integer[]) AS given (id, attempt)'
