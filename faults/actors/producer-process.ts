/**
 * The program of a producer process: several lanes, each with a connection of its own, that enqueue in transactions,
 * keep books about it, and find out how a COMMIT ended whose answer was lost.
 */
import { once } from 'node:events'
import { createSluice } from '../../src/index.ts'
import { instrument } from '../../src/otel.ts'
import type { Outside } from '../run/environment.ts'
import { startFlakySdk } from './flaky-sdk.ts'
import { ProducerLane } from './producer-lane.ts'

/** What a producer does. */
export interface ProducerSetup {
  /** The way of the application's connections. */
  readonly url: string
  readonly ledgerUrl: string
  readonly queue: string
  /** Where webhooks go, if its messages are such. */
  readonly outside?: Outside | undefined
  readonly seed: number
  readonly load: Load
}

export interface Load {
  readonly lanes: number
  /** The longest pause between two transactions of a lane. */
  readonly pauseMs: number
  /** How many keys each lane has for itself, zero for none. */
  readonly keys: number
  /** The share of transactions that stay open for a while, and for how long at most. */
  readonly long: number
  readonly longMs: number
  /** The share of transactions that roll back. */
  readonly rollbacks: number
  /** Of messages, the shares that fail once and that always fail. */
  readonly failing: number
  readonly dying: number
  /** Of messages without keys, the share that is due later, and how much later at most. */
  readonly delayed: number
  readonly delayMs: number
  /** The share of transactions whose first message has a dedupe key that all lanes use for three seconds. */
  readonly deduped: number
  /** How a lane finds out about a COMMIT whose answer was lost: it asks for the transaction, or for its own row; or it does not. */
  readonly asks: 'transaction' | 'row' | 'nobody'
  readonly enqueueTimeoutMs?: number
  /** Appends events to a stream, each of which is a message for each group. They have no delays and no dedupe keys. */
  readonly appends?: boolean
  /** Its Sluice has an SDK of OpenTelemetry that throws and is slow, and the books have the traces of messages. */
  readonly traced?: boolean
  /** Goes on without a message whose enqueue fails, and commits what it belongs to. */
  readonly swallows?: boolean
  /** Each message commits before the row that it belongs to, as without an outbox. */
  readonly apart?: boolean
}

export type ProducerOrder = { readonly kind: 'start'; readonly setup: ProducerSetup } | { readonly kind: 'stop' }
export type ProducerNews = { readonly kind: 'flowing' } | { readonly kind: 'done' }

const stopping = new AbortController()
process.on('disconnect', () => process.exit(1))
const [order] = (await once(process, 'message')) as [ProducerOrder]
if (order.kind !== 'start') process.exit(1)
process.on('message', (next: ProducerOrder) => {
  if (next.kind === 'stop') stopping.abort()
})

const { setup } = order
const sluice = createSluice({ connection: setup.url, ...(setup.load.traced && { log: false }) })
if (setup.load.traced) instrument(sluice, startFlakySdk())
const lanes = Array.from({ length: setup.load.lanes }, (_, at) => new ProducerLane(setup, at, sluice))
const running = lanes.map((lane) => lane.run(stopping.signal))
process.send?.({ kind: 'flowing' } satisfies ProducerNews)
await Promise.all(running)
await sluice.stop()
process.send?.({ kind: 'done' } satisfies ProducerNews, () => process.exit())
