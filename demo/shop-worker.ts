import { setTimeout as sleep } from 'node:timers/promises'
import type { HandlerContext, Message } from '../src/index.ts'
import { MAX_ATTEMPTS, openShop, type ShopDatabase, type ShopMessage } from './shop.ts'

// A worker process of the demo: two pipelines, until the parent says stop, or goes away.

const url = process.env.DATABASE_URL ?? ''
const shop = openShop(url)
let waitToBeKilled = false

/** A tenth of a second is what a busy database takes to come back, here with every thirtieth first attempt. */
const FAIL_EVERY = 30

async function handle(message: Message, { tx, attempt }: HandlerContext): Promise<void> {
  const { orderId, customer, poison } = message.payload as ShopMessage
  if (message.queue === 'shipping' && attempt === 1 && orderId % FAIL_EVERY === 0)
    throw new Error('The carrier is busy')
  await tx
    .kysely<ShopDatabase>()
    .insertInto('effect')
    .values({
      messageId: message.id,
      queue: message.queue,
      orderId,
      customer,
      attempt,
      latencyMs: Date.now() - message.enqueuedAt.getTime(),
      worker: process.pid,
    })
    .execute()
  if (poison === true) throw new Error('The address does not exist')
  if (waitToBeKilled && message.queue === 'shipping') {
    // The effect is written and not committed: the worst moment to die.
    process.send?.('in the middle of a batch')
    await sleep(60_000)
  }
}

const retry = { kind: 'exponential', delay: '100ms', maxDelay: '1s' } as const
shop.sluice
  .pipeline('shipping', { concurrency: 2, batchSize: 20, retry, maxAttempts: MAX_ATTEMPTS })
  .handle(handle)
  .start()
shop.sluice.pipeline('emails', { concurrency: 2, batchSize: 20, retry }).handle(handle).start()

process.on('message', (order) => {
  if (order === 'wait to be killed') waitToBeKilled = true
  if (order === 'stop') void stop()
})
process.on('disconnect', () => void stop())

async function stop(): Promise<void> {
  await shop.close()
  process.exit(0)
}

await shop.sluice.start()
process.send?.('ready')
