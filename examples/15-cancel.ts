// The life of a message after its enqueue: look, change, reschedule, run now, cancel, expire, clear.

import { createSluice } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '', log: false })
await sluice.migrate()
const { operate } = sluice
const queue = 'example.reminders'

// A reminder for tomorrow. The customer changes the address, and then does not want it any more.
const id = await sluice.enqueue(sluice.ownTransaction, queue, { to: 'ada@example.com' }, { delay: '1d' })
const changed = await operate.messages.change(queue, id, { payload: { to: 'ada@example.org' }, priority: 0 })
console.log(`change: ${changed.result}, it was ${changed.state}`)
console.log(`reschedule: ${(await operate.messages.reschedule(queue, id, { delay: '2h' })).result}`)
const cancelled = await operate.messages.cancel(queue, id)
console.log(`cancel: ${cancelled.result}, it was ${cancelled.state}`)
console.log(`cancel again: ${(await operate.messages.cancel(queue, id)).state}`)

// One that runs early.
const early = await sluice.enqueue(sluice.ownTransaction, queue, { to: 'grace@example.com' }, { delay: '1d' })
await operate.messages.runNow(queue, early)

// A handler that takes long, and hears that its message is cancelled.
const begun = Promise.withResolvers<string>()
const ended = Promise.withResolvers<string>()
const pipeline = sluice
  .pipeline(queue, { mode: 'leased' })
  .handle(async (message, { signal }) => {
    begun.resolve(message.id)
    await new Promise((resolve) => signal.addEventListener('abort', resolve))
    ended.resolve((signal.reason as { code: string }).code)
  })
  .start()
const running = await begun.promise
console.log(`cancel in flight: ${(await operate.messages.cancel(queue, running)).result}`)
console.log(`the handler: ${await ended.promise}`)
await pipeline.drain()

// A claim finds only what lives. Nobody handles a code after its minute.
await sluice.enqueue(sluice.ownTransaction, 'example.codes', { code: 1234 }, { ttl: '1ms' })
await new Promise((resolve) => setTimeout(resolve, 20))
console.log(`claim: ${(await sluice.claim('example.codes'))?.messages.length ?? 'nothing'}`)

await sluice.enqueueMany(sluice.ownTransaction, queue, [{ payload: 1 }, { payload: 2 }, { payload: 3, type: 'kept' }])
console.log(`to clear: ${await operate.queues.clear(queue, { dryRun: true })}`)
console.log(`cleared: ${await operate.queues.clear(queue)}`)

await sluice.stop()
