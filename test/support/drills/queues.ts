import { busyWorker } from '../explain/reasons.ts'
import { register } from '../rows/operations.ts'
import { waitFor } from '../wait.ts'
import { type Drill, enqueue, fail, handle, idle, session } from './drill.ts'

/** Messages that do not run. By the headings of docs/guides/troubleshooting.md. */
export const QUEUE_DRILLS: Readonly<Record<string, Drill>> = {
  'Nothing moves in a queue, and its workers are idle': async (stage) => {
    await register(stage.database, { name: 'web-1:4711', queues: ['orders'], alive: true })
    await stage.sluice.operate.queues.pause('orders', { by: 'ada', reason: 'rollout' })
    await enqueue(stage, 'orders', 3)
  },

  'Nothing moves in a queue, and its messages have failed': async (stage) => {
    await enqueue(stage, 'orders', 3)
    await fail(stage, 'orders', 'card service 503')
    await register(stage.database, { name: 'web-1:4711', queues: ['orders'], alive: true })
  },

  'Messages wait, and no worker takes them': async (stage) => {
    await idle(stage, 'invoices')
    await enqueue(stage, 'invocies', 1)
    await stage.database.sql(`UPDATE sluice.message SET due_at = due_at - interval '5 minutes'`)
  },

  'One message waits, and later ones are handled': async (stage) => {
    await enqueue(stage, 'orders', 1, { orderingKey: 'customer-1' })
    await fail(stage, 'orders', 'card service 503')
    await enqueue(stage, 'orders', 2_000, { orderingKey: 'customer-1' })
    await register(stage.database, { name: 'web-1:4711', queues: ['orders'], alive: true })
  },

  'A handler does not end': async (stage) => {
    await busyWorker(stage.worker, 'orders')
    const isRecorded = async () => (await stage.sluice.operate.workers.inFlight({ queue: 'orders' })).length > 0
    await waitFor(isRecorded, { what: 'the record of the batch' })
  },

  'A tenant waits, and others do not': async (stage) => {
    await stage.sluice.operate.queues.settings.set('reports', { tenantConcurrency: 1 })
    await enqueue(stage, 'reports', 2, { tenant: 'acme' })
    await stage.sluice.claim('reports', { limit: 1 })
    await idle(stage, 'reports')
  },

  'A message that was enqueued is not there': async (stage) => {
    await idle(stage, 'orders')
    const client = await session(stage, 'checkout')
    await client.query('BEGIN')
    await stage.sluice.enqueue(client, 'orders', { order: 1 })
  },

  'No message comes from the broker': async (stage) => {
    const { sluice, worker } = stage
    await idle(stage, 'orders-in')
    const from = { system: 'nats', open: () => Promise.reject(new Error('10.0.0.1:4222: no connection in time')) }
    worker.inbox('orders-in', { from, breaker: { delay: '1h', maxDelay: '1h' } }).start()
    const isKnown = async () => (await sluice.operate.status()).inboxes.length > 0
    await waitFor(isKnown, { what: 'the state of the inbox' })
  },

  'A message is due, and its workers pass it over': async (stage) => {
    await stage.sluice.operate.queues.pause('orders', { by: 'ada' })
    await enqueue(stage, 'orders', 1)
    const client = await session(stage, 'psql')
    await client.query('BEGIN')
    await client.query('SELECT FROM sluice.message FOR UPDATE')
    await stage.sluice.operate.queues.resume('orders', { by: 'ada' })
    await idle(stage, 'orders')
  },

  'Many dead letters have one cause': async (stage) => {
    await enqueue(stage, 'orders', 12, { maxAttempts: 1 })
    await fail(stage, 'orders', 'card service 503')
    await enqueue(stage, 'orders', 1, { maxAttempts: 1 })
    await fail(stage, 'orders', 'no such customer')
  },

  'Was it handled, when, and by which worker?': async (stage) => {
    await stage.sluice.operate.queues.settings.set('orders', { history: '7d' })
    await enqueue(stage, 'orders', 1)
    await handle(stage, 'orders')
  },

  'Who cancelled it?': async (stage) => {
    const [id = ''] = await enqueue(stage, 'orders', 1, { delay: '1h' })
    await stage.sluice.operate.by('ada').messages.cancel('orders', id)
  },
}
