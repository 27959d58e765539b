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
} from '../../src/index.ts'
import type { LoadPayload } from '../ledger.ts'
import { LedgerWriter } from './ledger-writer.ts'

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
}

/** A moment in which a worker can be told to send itself a signal. */
export type Moment = 'claimed' | 'handling' | 'effects'

export type WorkerOrder =
  | { readonly kind: 'start'; readonly setup: WorkerSetup }
  | { readonly kind: 'signal'; readonly signal: 'SIGKILL' | 'SIGSTOP'; readonly at: Moment }
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
const sluice = createSluice({
  connection: setup.url,
  directConnection: setup.directUrl,
  name: setup.name,
  pollInterval: setup.pollIntervalMs,
})

process.on('message', (next: WorkerOrder) => {
  if (next.kind === 'signal') fatal = next
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
  'worker.crashed',
  'message.dead',
]

/** What a blocked event loop is blocked for: longer than any transaction of this fleet may last. */
const BLOCK_MS = 3_500

/** The second handler to create the table on a connection fails, and so does whoever writes there in a transaction begun later. */
const LEFT_BEHIND =
  'CREATE TEMP TABLE left_behind (); SET search_path = nowhere; SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY'

async function begin(id: string, attempt: number, signal: AbortSignal): Promise<void> {
  const values = [id, setup.name, attempt]
  await ledger.write('INSERT INTO ledger.started (message_id, worker, attempt) VALUES ($1, $2, $3)', values, signal)
  reach('handling')
}

async function leaveEffect(tx: HandlerTransaction, id: string, attempt: number, { fate }: LoadPayload): Promise<void> {
  const values = [id, setup.name, attempt]
  await tx.query('INSERT INTO ledger.effect (message_id, worker, attempt) VALUES ($1, $2, $3)', values)
  reach('effects')
  if (fate === 'sever') await tx.query('SELECT pg_terminate_backend(pg_backend_pid())')
  if (fate === 'careless') await tx.query(LEFT_BEHIND)
}

const handle: Handler<LoadPayload> = async ({ id, payload }, { tx, attempt, signal }) => {
  await begin(id, attempt, signal)
  await leaveEffect(tx, id, attempt, payload)
  return meet(payload, attempt)
}

/** The same in leased mode: what is written, and the end of the message, are one transaction of the handler's. */
const handleLeased: Handler<LoadPayload, undefined, 'leased'> = async (message, { transaction, attempt, signal }) => {
  const { id, payload } = message
  await begin(id, attempt, signal)
  const outcome = meet(payload, attempt)
  if (outcome !== undefined) return outcome
  await transaction((tx) => leaveEffect(tx, id, attempt, payload))
  return undefined
}

function meet({ fate, failures, afterMs }: LoadPayload, attempt: number): Outcome | undefined {
  if (fate === 'poison') process.kill(process.pid, 'SIGKILL')
  if (fate === 'block') for (const end = performance.now() + BLOCK_MS; performance.now() < end; );
  const fails = fate === 'die' || (fate === 'fail' && attempt <= failures)
  if (fails && afterMs) return retryLater({ after: afterMs })
  if (fails) throw new Error(`fails with attempt ${attempt}`)
  return undefined
}

/** A batch in one call: for floods, of which each message succeeds at once. */
const handleAll: BatchHandler = async (messages, { tx, signal }) => {
  const values = [messages.map(({ id }) => id), setup.name, messages.map(({ attempt }) => attempt)]
  const rows = 'SELECT given.id, $2, given.attempt FROM unnest($1::bigint[], $3::integer[]) AS given (id, attempt)'
  await ledger.write(`INSERT INTO ledger.started (message_id, worker, attempt) ${rows}`, values, signal)
  reach('handling')
  await tx.query(`INSERT INTO ledger.effect (message_id, worker, attempt) ${rows}`, values)
  reach('effects')
}

if (setup.pipeline.mode === 'leased') {
  sluice
    .pipeline(setup.queue, setup.pipeline)
    .handle(handleLeased as Handler<unknown, undefined, 'leased'>)
    .start()
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
  await sluice.stop(timeoutMs === undefined ? {} : { timeout: timeoutMs })
  await ledger.end()
  tell({ kind: 'stopped' }, () => process.exit())
}

function tell(news: WorkerNews, sent?: () => void): void {
  if (process.connected) process.send?.(news, undefined, {}, sent)
}
