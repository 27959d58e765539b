// Limits: two processes share a queue that may have two messages in flight, and each customer one. A burst of one customer
// does not hold up the other.

import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluices = [createSluice({ connection, log: false }), createSluice({ connection, log: false })] as const
const [sluice] = sluices
await sluice.migrate()
const QUEUE = 'example.renderings'
await sluice.operate.queues.settings.set(QUEUE, { concurrency: 2, tenantConcurrency: 1 })

for (const [tenant, count] of [
  ['acme', 6],
  ['bolt', 2],
] as const) {
  const messages = Array.from({ length: count }, (_, at) => ({ payload: { tenant, page: at + 1 }, tenant }))
  await sluice.enqueueMany(sluice.ownTransaction, QUEUE, messages)
}

let inFlight = 0
let most = 0
const order: string[] = []
const done = Promise.withResolvers<void>()

/** The burst goes on when bolt has all its pages: they are rendered beside the first of acme. */
const acmeHasBegun = Promise.withResolvers<void>()
const boltIsDone = Promise.withResolvers<void>()

async function render({ payload }: { readonly payload: unknown }): Promise<void> {
  const { tenant, page } = payload as { readonly tenant: string; readonly page: number }
  inFlight += 1
  most = Math.max(most, inFlight)
  order.push(tenant)
  if (tenant === 'acme') {
    acmeHasBegun.resolve()
    await boltIsDone.promise
  } else {
    await acmeHasBegun.promise
    if (page === 2) boltIsDone.resolve()
  }
  inFlight -= 1
  if (order.length === 8) done.resolve()
}

for (const each of sluices) each.pipeline(QUEUE, { concurrency: 4, batchSize: 1 }).handle(render).start()
await done.promise
console.log(`pages: ${order.length}, in flight at a time: ${most}`)
console.log(
  `the last page of bolt is before the last of acme: ${order.lastIndexOf('bolt') < order.lastIndexOf('acme')}`,
)

await Promise.all(sluices.map((each) => each.stop()))
