import { register } from '../rows/operations.ts'
import { waitFor } from '../wait.ts'
import { type Drill, enqueue, fail, handle, idle, session } from './drill.ts'

/** Streams, schedules, the server and deployments. By the headings of docs/guides/troubleshooting.md. */
export const SYSTEM_DRILLS: Readonly<Record<string, Drill>> = {
  'A partition of a group has stopped': async (stage) => {
    const { sluice, worker } = stage
    await sluice.streams.set('orders', { partitions: 1 })
    await sluice.groups.set('orders', 'billing', { from: 'start', onFailure: 'stop' })
    await sluice.append(sluice.ownTransaction, 'orders', { order: 1 })
    await sluice.append(sluice.ownTransaction, 'orders', { order: 2 })
    await worker
      .pipeline('orders', { group: 'billing', maxAttempts: 1 })
      .handle(() => {
        throw new Error('card service 503')
      })
      .runOnce()
    await register(stage.database, { name: 'web-1', queues: ['orders:billing'], alive: true })
  },

  'A group does not get new events': async (stage) => {
    const { sluice, database } = stage
    await sluice.streams.set('orders', { partitions: 1 })
    await sluice.groups.set('orders', 'billing', { from: 'start' })
    const client = await session(stage, 'checkout')
    await client.query('BEGIN')
    await sluice.append(client, 'orders', { order: 1 })
    await sluice.append(sluice.ownTransaction, 'orders', { order: 2 })
    await register(database, { name: 'web-1', queues: ['orders:billing'], alive: true })
  },

  'A schedule is late': async ({ sluice, database }) => {
    await sluice.schedules.set('nightly', { queue: 'reports', payload: {}, cron: '0 3 * * *' })
    await database.sql(`UPDATE sluice.schedule SET next_at = clock_timestamp() - interval '12 minutes'`)
  },

  'A schedule has skipped occurrences': async (stage) => {
    const { sluice, database } = stage
    await idle(stage, 'other')
    await sluice.schedules.set('often', { queue: 'reports', payload: {}, every: '1d', overlap: false })
    await sluice.operate.schedules.runNow('often')
    await database.sql(`UPDATE sluice.schedule SET next_at = date_trunc('milliseconds', clock_timestamp())`)
    const isSkipped = async () => (await database.sql('SELECT FROM sluice.schedule WHERE skipped > 0')).length > 0
    await waitFor(isSkipped, { what: 'the occurrence to be skipped' })
  },

  'A worker gets no connection': async (stage) => {
    const name = new URL(stage.database.url).pathname.slice(1)
    for (let at = 0; at < 3; at++) await session(stage, 'web')
    const { length } = await stage.database.sql(`SELECT FROM pg_stat_activity WHERE datname = current_database()`)
    await stage.database.sql(`ALTER DATABASE ${name} CONNECTION LIMIT ${length + 1}`)
  },

  'Workers are behind a pooler, and messages start late': async ({ database }) => {
    await register(database, { name: 'web-1', queues: ['orders'], alive: true })
    await database.sql('UPDATE sluice.worker SET pooled = true')
  },

  'A worker hangs': async ({ database }) => {
    await register(database, { name: 'web-1', queues: ['orders'], alive: true, inHand: 2 })
    await database.sql(`UPDATE sluice.worker SET seen_at = seen_at - interval '5 minutes'`)
  },

  'The tables grow, although messages are handled': async (stage) => {
    const client = await session(stage, 'report')
    await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await client.query('SELECT count(*) FROM sluice.message')
  },

  'Two versions of the workers run': async ({ database }) => {
    await register(database, { name: 'web-1', queues: ['orders'], alive: true })
    await register(database, { name: 'web-2', queues: ['orders'], alive: true })
    await database.sql(`UPDATE sluice.worker SET version = CASE name WHEN 'web-1' THEN '0.1.0' ELSE '0.2.0' END`)
  },

  'Is it safe to deploy now?': async ({ database }) => {
    await register(database, { name: 'web-1', queues: ['orders'], alive: true })
    await database.sql(`UPDATE sluice.worker SET version = '0.1.0'`)
  },

  'How was the last hour, and what does a queue cost?': async (stage) => {
    await enqueue(stage, 'orders', 3)
    await handle(stage, 'orders')
    await enqueue(stage, 'orders', 1)
    await fail(stage, 'orders', 'card service 503')
    await stage.worker.stop()
  },
}
