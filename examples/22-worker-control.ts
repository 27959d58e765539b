// A running worker under control: it pauses when the bank is down, warns that its backlog grows, and catches up with more
// at a time.

import { createSluice } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', log: false })
await sluice.migrate()
const QUEUE = 'example.charges'
let bankIsDown = true
let charged = 0
const isPaused = Promise.withResolvers<void>()
const isDone = Promise.withResolvers<void>()

async function charge(): Promise<void> {
  if (bankIsDown) throw new Error('The bank is down')
  charged += 1
  if (charged === 20) isDone.resolve()
}

const running = sluice
  .pipeline(QUEUE, {
    mode: 'leased',
    concurrency: 1,
    retry: { kind: 'fixed', delay: 0 },
    // The failed charge is tried again after resume(). Without the pause all twenty would use up their attempts.
    onError: (error, { attempt }) => {
      console.log(`attempt ${attempt} failed: ${(error as Error).message}`)
      isPaused.resolve()
      return 'pause'
    },
    backlog: { messages: 10, every: '1s' },
  })
  .handle(charge)
  .start()

const warned = new Promise<number | null>((resolve) => {
  sluice.events.subscribe((event) => {
    if (event.kind === 'queue.backlog' && event.queue === QUEUE) resolve(event.moreThan)
  })
})
const charges = Array.from({ length: 20 }, (_, at) => ({ payload: { invoice: at + 1 } }))
await sluice.enqueueMany(sluice.ownTransaction, QUEUE, charges)

await isPaused.promise
console.log(`paused: ${running.paused}`)
console.log(`more than ${await warned} messages wait`)

bankIsDown = false
running.setConcurrency(5)
running.resume()
await isDone.promise
await running.drain()
const { acked, retried } = running.statistics()
console.log(`${acked} charged, ${retried} retried, ${running.concurrency} at a time`)
await sluice.stop()
