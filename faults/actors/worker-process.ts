/**
 * The program of a worker process: consumes a queue as a user's would, keeps books about what it begins and what it
 * does, and dies where it is told to.
 */
import { once } from 'node:events'
import {
  type BatchHandler,
  createSluice,
  type Handler,
  type HandlerTransaction,
  type LeasedPipelineOptions,
  type Outcome,
  type PipelineOptions,
  retryLater,
  type SluiceEvent,
  snooze,
} from '../../src/index.ts'
import type { LoadPayload } from '../ledger.ts'
import { HeldHandlers } from './held-handlers.ts'
import { LedgerWriter } from './ledger-writer.ts'
import { stepDate } from './step-date.ts'

export interface WorkerSetup {
  readonly name: string
  /** The way of the batches' connections, and of the two others, if another. */
  readonly url: string
  readonly directUrl?: string | undefined
  readonly ledgerUrl: string
  readonly queue: string
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
  readonly pollIntervalMs?: number | undefined
  readonly wholeBatches?: boolean | undefined
  /** Where leased handlers write their effects: in their own transaction, or elsewhere, and then they return. */
  readonly effects?: 'in its transaction' | 'elsewhere' | undefined
  /** What its handlers need not wait for. */
  readonly going: readonly Go[]
}

/** An attempt of a message that is held, or any of its attempts. */
export interface Go {
  readonly id: string
  readonly attempt?: number
}

/** A moment in which a worker can be told to send itself a signal. */
export type Moment = 'claimed' | 'handling' | 'effects'

export type WorkerOrder =
  | { readonly kind: 'start'; readonly setup: WorkerSetup }
  | { readonly kind: 'signal'; readonly signal: 'SIGKILL' | 'SIGSTOP'; readonly at: Moment }
  | { readonly kind: 'go'; readonly going: readonly Go[] }
  /** Blocks its event loop. */
  | { readonly kind: 'block'; readonly ms: number }
  /** Steps the clock of its process, which `Date` tells. */
  | { readonly kind: 'step'; readonly ms: number }
  | { readonly kind: 'stop'; readonly timeoutMs?: number }

export type WorkerNews =
  | { readonly kind: 'consuming' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'event'; readonly event: SluiceEvent['kind']; readonly role: string | undefined }

let fatal: { readonly at: Moment; readonly signal: NodeJS.Signals } | undefined
process.on('disconnect', () => process.exit(1))
const [order] = (await once(process, 'message')) as [WorkerOrder]
if (order.kind !== 'start') process.exit(1)
const { setup } = order
const ledger = new LedgerWriter(setup.ledgerUrl)
const held = new HeldHandlers(setup.going)
const sluice = createSluice({
  connection: setup.url,
  directConnection: setup.directUrl,
  name: setup.name,
  pollInterval: setup.pollIntervalMs,
})

process.on('message', (next: WorkerOrder) => {
  if (next.kind === 'signal') fatal = next
  if (next.kind === 'go') held.go(next.going)
  if (next.kind === 'block') block(next.ms)
  if (next.kind === 'step') stepDate(next.ms)
  if (next.kind === 'stop') void stop(next.timeoutMs)
})
sluice.events.subscribe((event) => {
  if (event.kind === 'batch.claimed') reach('claimed')
  if (event.kind === 'pipeline.started') tell({ kind: 'consuming' })
  const role = 'role' in event ? event.role : undefined
  if (TOLD.includes(event.kind)) tell({ kind: 'event', event: event.kind, role })
})

/** What the fleet counts: everything else happens too often. */
const TOLD: readonly SluiceEvent['kind'][] = [
  'connection.lost',
  'connection.restored',
  'claim.failed',
  'lease.lost',
  'worker.crashed',
  'message.dead',
]

/** What a blocked event loop is blocked for: longer than any transaction of this fleet may last. */
const BLOCK_MS = 3_500

/** The second handler to create the table on a connection fails, and so does whoever writes there in a transaction begun later. */
const LEFT_BEHIND =
  'CREATE TEMP TABLE left_behind (); SET search_path = nowhere; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'

const EFFECT = 'INSERT INTO ledger.effect (message_id, worker, attempt) VALUES ($1, $2, $3)'

/** How soon a transactional handler is asked again about a message that is held. */
const AGAIN_MS = 50

async function begin(id: string, attempt: number, signal: AbortSignal): Promise<void> {
  const values = [id, setup.name, attempt]
  await ledger.write('INSERT INTO ledger.started (message_id, worker, attempt) VALUES ($1, $2, $3)', values, signal)
  reach('handling')
}

async function leaveEffect(tx: HandlerTransaction, id: string, attempt: number, { fate }: LoadPayload): Promise<void> {
  await tx.query(EFFECT, [id, setup.name, attempt])
  reach('effects')
  if (fate === 'sever') await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
  if (fate === 'careless') await tx.query(LEFT_BEHIND)
}

const handle: Handler<LoadPayload> = async ({ id, payload }, { tx, attempt, signal }) => {
  await begin(id, attempt, signal)
  // It is for those who can wait without a transaction.
  if (payload.fate === 'hold' && !held.goes(id, attempt)) return snooze({ after: AGAIN_MS })
  await leaveEffect(tx, id, attempt, payload)
  return meet(payload, attempt)
}

/** The same in leased mode: what is written, and the end of the message, are one transaction of the handler's. */
const handleLeased: Handler<LoadPayload, undefined, 'leased'> = async (message, { transaction, attempt, signal }) => {
  const { id, payload } = message
  await begin(id, attempt, signal)
  // From here on without a look at its signal: whoever has lost a lease may be the last to know.
  if (payload.fate === 'hold') await held.untilGo(id, attempt)
  const outcome = meet(payload, attempt)
  if (outcome !== undefined) return outcome
  if (setup.effects === 'elsewhere') await ledger.write(EFFECT, [id, setup.name, attempt])
  else await transaction((tx) => leaveEffect(tx, id, attempt, payload))
  return undefined
}

function meet({ fate, failures, afterMs }: LoadPayload, attempt: number): Outcome | undefined {
  if (fate === 'poison') process.kill(process.pid, 'SIGKILL')
  if (fate === 'block') block(BLOCK_MS)
  const fails = fate === 'die' || ((fate === 'fail' || fate === 'hold') && attempt <= failures)
  if (fails && afterMs) return retryLater({ after: afterMs })
  if (fails) throw new Error(`fails with attempt ${attempt}`)
  return undefined
}

function block(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

/** A batch in one call: for floods, of which each message succeeds at once. */
const handleAll: BatchHandler = async (messages, { tx, signal }) => {
  const values = await beginAll(messages, signal)
  await leaveAll(tx, values)
}

const handleAllLeased: BatchHandler<unknown, undefined, 'leased'> = async (messages, { transaction, signal }) => {
  const values = await beginAll(messages, signal)
  await transaction((tx) => leaveAll(tx, values))
}

type Begun = readonly { readonly id: string; readonly attempt: number }[]

const GIVEN = 'SELECT given.id, $2, given.attempt FROM unnest($1::bigint[], $3::integer[]) AS given (id, attempt)'

async function beginAll(messages: Begun, signal: AbortSignal): Promise<unknown[]> {
  const values = [messages.map(({ id }) => id), setup.name, messages.map(({ attempt }) => attempt)]
  await ledger.write(`INSERT INTO ledger.started (message_id, worker, attempt) ${GIVEN}`, values, signal)
  reach('handling')
  return values
}

async function leaveAll(tx: HandlerTransaction, values: unknown[]): Promise<void> {
  await tx.query(`INSERT INTO ledger.effect (message_id, worker, attempt) ${GIVEN}`, values)
  reach('effects')
}

if (setup.pipeline.mode === 'leased') {
  const pipeline = sluice.pipeline(setup.queue, setup.pipeline)
  if (setup.wholeBatches) pipeline.handleBatch(handleAllLeased).start()
  else pipeline.handle(handleLeased as Handler<unknown, undefined, 'leased'>).start()
} else {
  const pipeline = sluice.pipeline(setup.queue, setup.pipeline)
  if (setup.wholeBatches) pipeline.handleBatch(handleAll).start()
  else pipeline.handle(handle as Handler).start()
}

function reach(moment: Moment): void {
  if (fatal?.at !== moment) return
  const { signal } = fatal
  fatal = undefined
  process.kill(process.pid, signal)
}

async function stop(timeoutMs?: number): Promise<void> {
  held.goAll()
  await sluice.stop(timeoutMs === undefined ? {} : { timeout: timeoutMs })
  await ledger.end()
  tell({ kind: 'stopped' }, () => process.exit())
}

function tell(news: WorkerNews, sent?: () => void): void {
  if (process.connected) process.send?.(news, undefined, {}, sent)
}
