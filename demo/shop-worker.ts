import { setTimeout as sleep } from 'node:timers/promises'
import type { HandlerContext, HandlerTransaction, LeasedContext, Message } from '../src/index.ts'
import { MAX_ATTEMPTS, type OrderPlaced, type ShopDatabase, type ShopMessage } from './shop.ts'
import { openSite } from './site.ts'

// A worker process of the demo: two pipelines of queues and one of a stream's group, until the parent says stop, or goes away.

const url = process.env.DATABASE_URL ?? ''
const mailUrl = process.env.MAIL_URL ?? ''
const shop = openSite<ShopDatabase>(url)
let waitToBeKilled = false

/** A tenth of a second is what a busy database takes to come back, here with every thirtieth first attempt. */
const FAIL_EVERY = 30

async function ship(message: Message, { tx, attempt }: HandlerContext): Promise<void> {
  const { orderId, poison } = message.payload as ShopMessage
  if (attempt === 1 && orderId % FAIL_EVERY === 0) throw new Error('The carrier is busy')
  await writeEffect(tx, message)
  if (poison === true) throw new Error('The address does not exist')
  // The effect is written and not committed.
  if (waitToBeKilled) await die('in the middle of a batch')
}

async function sendEmail(message: Message, { idempotencyKey, signal, transaction }: LeasedContext): Promise<void> {
  const { orderId, customer } = message.payload as ShopMessage
  const headers = { 'idempotency-key': idempotencyKey }
  const body = JSON.stringify({ orderId, customer })
  const response = await fetch(mailUrl, { method: 'POST', headers, body, signal })
  await response.arrayBuffer()
  if (!response.ok) throw new Error(`The mail service answered ${response.status}`)
  // The mail is out, and the queue does not know it.
  if (waitToBeKilled) await die('between a mail and its settlement')
  await transaction((tx) => writeEffect(tx, message))
}

/** The events of a product are handled one after another: no two transactions meet in a row of the report. */
async function report({ payload }: Message, { tx }: HandlerContext): Promise<void> {
  const { product, cents } = payload as OrderPlaced
  await tx
    .kysely<ShopDatabase>()
    .insertInto('report')
    .values({ product, orders: 1, cents })
    .onConflict((conflict) =>
      conflict.column('product').doUpdateSet((of) => ({
        orders: of('report.orders', '+', 1),
        cents: of('report.cents', '+', cents),
      })),
    )
    .execute()
  // The order is added up, and the group's progress is not committed.
  if (waitToBeKilled) await die('in the middle of the report')
}

async function writeEffect(tx: HandlerTransaction, message: Message): Promise<void> {
  const { orderId, customer } = message.payload as ShopMessage
  await tx
    .kysely<ShopDatabase>()
    .insertInto('effect')
    .values({
      messageId: message.id,
      queue: message.queue,
      orderId,
      customer,
      attempt: message.attempt,
      latencyMs: Date.now() - message.enqueuedAt.getTime(),
      worker: process.pid,
    })
    .execute()
}

/** The worst moment to die has come. */
async function die(where: string): Promise<void> {
  process.send?.(where)
  await sleep(60_000)
}

const retry = { kind: 'exponential', delay: '100ms', maxDelay: '1s' } as const
shop.sluice
  .pipeline('shipping', { concurrency: 2, batchSize: 20, retry, maxAttempts: MAX_ATTEMPTS })
  .handle(ship)
  .start()
shop.sluice.pipeline('emails', { mode: 'leased', concurrency: 20, retry }).handle(sendEmail).start()
shop.sluice.pipeline('orders', { group: 'report', batchSize: 20, retry }).handle(report).start()

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
