/**
 * Tells a queue settings, and pauses it, while a worker runs: no restart, and no message is lost.
 *
 *   DATABASE_URL=postgres://localhost/mydb node examples/13-queue-settings.ts
 */
import { filter, firstValueFrom } from 'rxjs'
import { createSluice, type SluiceEvent } from 'sluice'

const QUEUE = 'settings.emails'

const sluice = createSluice({
  connection: process.env.DATABASE_URL ?? '',
  // Messages and queues name them.
  retryPolicies: { gentle: { kind: 'fixed', delay: '100ms' } },
})
await sluice.migrate()
/** The next event of a kind, to be awaited. */
const next = (kind: SluiceEvent['kind']) => firstValueFrom(sluice.events.pipe(filter((event) => event.kind === kind)))
sluice.events.subscribe((event) => {
  if (event.kind === 'message.failed') console.log(`failed, again in ${event.retryInMs} ms`)
  if (event.kind === 'message.dead') console.log(event.reason)
  if (event.kind === 'pipeline.paused') console.log(`paused by ${event.by}: ${event.reason}`)
  if (event.kind === 'pipeline.resumed') console.log('resumed')
})

sluice
  .pipeline(QUEUE)
  .handle(async ({ payload }) => {
    if (payload === 'nobody') throw new Error('no such address')
    console.log(`sent to ${payload}`)
  })
  .start()
await next('pipeline.started')

// What a message says itself comes first, then the settings of its queue, then the code.
const dead = next('message.dead')
await sluice.operate.queues.settings.set(QUEUE, { ttl: '7d', maxAttempts: 2 }, { by: 'ada' })
await sluice.enqueue(sluice.ownTransaction, QUEUE, 'nobody', { retryPolicy: 'gentle' })
await dead

const paused = next('pipeline.paused')
await sluice.operate.queues.pause(QUEUE, { by: 'ada', reason: 'the mail provider is down' })
await paused
const id = await sluice.enqueue(sluice.ownTransaction, QUEUE, 'grace')
const waiting = await sluice.operate.messages.get(QUEUE, id)
console.log(`message to ${waiting?.payload}: ${waiting?.state}`)

const sent = next('batch.committed')
await sluice.operate.queues.resume(QUEUE)
await sent

const settings = await sluice.operate.queues.settings.get(QUEUE)
console.log(
  `max attempts ${settings?.maxAttempts}, set by ${settings?.changedBy === 'ada' ? 'ada' : 'the database user'}`,
)
await sluice.operate.queues.settings.unset(QUEUE)
await sluice.stop()
