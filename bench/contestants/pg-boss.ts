import type pg from 'pg'
import type { Consumer, Contestant, Enqueuer, ListenSpec, Payload } from '../contestant.ts'
import { versionOf } from '../packages.ts'
import { pgBossJobs, startPgBoss } from './pg-boss-jobs.ts'
import { consumeByFetch, leaseByFetch } from './pg-boss-loop.ts'
import { openWriter } from './writer.ts'

export const pgBoss: Contestant = {
  name: 'pg-boss',
  title: `pg-boss ${versionOf('pg-boss')}`,
  guarantee:
    'The claim commits before the handler runs: if the process dies, its jobs wait until they expire (15 minutes) and ' +
    'then run again; completed jobs stay in the table for 7 days',
  ...pgBossJobs,
  consumes: {
    configuration:
      'loops of fetch({ batchSize }) and complete(ids), each on a connection of its pool; with effects, complete and ' +
      "the handlers' writes in one transaction for the batch, without savepoints (beginTransaction, complete with { db })",
    run: (url, spec) => consumeByFetch(url, spec, (boss, ids, options) => boss.complete('bench', ids, null, options)),
  },
  leases: {
    configuration:
      'the same loops, as many as batches are in flight; handlers of a batch side by side, and complete(ids) when the last has ended',
    run: (url, spec) => leaseByFetch(url, spec, (boss, ids) => boss.complete('bench', ids)),
  },
  listens: {
    configuration:
      'useListenNotify: true, a queue with notify: true, work({ batchSize, localConcurrency, burstWhenBatchFull: true }); with ' +
      'handlers that wait, batches of up to 10 whose handlers run side by side, in as many workers as that takes',
    run: listen,
  },
  enqueues: {
    configuration: "send and insert with { db } in the application's transaction, a queue with notify: true",
    run: enqueue,
  },
  idles: { configuration: 'useListenNotify: true, queues with notify: true, work(queue) as it comes', run: idle },
}

/** Each notification wakes every worker, and each of them fetches: a worker for each job at a time would be a hundred fetches. */
const WAITING_BATCH = 10

/** What is handled when it stops has been completed by then, so it counts as settled. */
async function listen(url: string, spec: ListenSpec): Promise<Consumer> {
  const boss = await startPgBoss(url, { useListenNotify: true })
  const { atOnce, handle } = spec
  const batches =
    atOnce === undefined
      ? { batchSize: spec.batchSize, localConcurrency: spec.inFlight }
      : { batchSize: WAITING_BATCH, localConcurrency: atOnce / WAITING_BATCH }
  await boss.work<Payload>('bench', { ...batches, burstWhenBatchFull: true }, async (jobs) => {
    if (atOnce !== undefined) await Promise.all(jobs.map(({ data }) => handle(data)))
    else for (const { data } of jobs) await handle(data)
    spec.onSettled(jobs.length)
  })
  return { stop: () => boss.stop() }
}

async function enqueue(url: string): Promise<Enqueuer> {
  const boss = await startPgBoss(url, { supervise: false })
  const inside = (client: pg.Client) => ({
    db: { executeSql: (text: string, values?: unknown[]) => client.query(text, values) },
  })
  return {
    open: () =>
      openWriter(url, {
        one: (client, message) => boss.send('bench', message, inside(client)),
        many: (client, messages) =>
          boss.insert(
            'bench',
            messages.map((data) => ({ data })),
            { ...inside(client), returnId: true },
          ),
      }),
    stop: () => boss.stop(),
  }
}

async function idle(url: string, queues: number): Promise<Consumer> {
  const boss = await startPgBoss(url, { useListenNotify: true })
  const names = Array.from({ length: queues }, (_, queue) => `idle-${queue}`)
  for (const name of names) {
    await boss.createQueue(name, { notify: true })
    await boss.work(name, async () => undefined)
  }
  return {
    stop: async () => {
      await Promise.all(names.map((name) => boss.offWork(name)))
      for (const name of names) await boss.deleteQueue(name)
      await boss.stop()
    },
  }
}
