import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectionOptions, Job, PgBoss } from 'pg-boss'
import type { Consumer, ConsumeSpec, FollowSpec, LeaseSpec, Payload, Work } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { startPgBoss } from './pg-boss-jobs.ts'

/** What is to become of jobs that are done; in the transaction of `options.db`, if there is one. */
export type Settle = (boss: PgBoss, ids: string[], options?: ConnectionOptions) => Promise<unknown>

const IDLE_MS = 10

type LoopSpec = Pick<ConsumeSpec, 'batchSize' | 'inFlight' | 'onSettled'> & {
  /** Handles the jobs of a batch and settles them. */
  readonly work: (boss: PgBoss, jobs: readonly Job<Payload>[]) => Promise<void>
  /** Each has loops of its own. @default ['bench'] */
  readonly queues?: readonly string[]
}

/** Loops of fetch and settle, as many as batches are in flight, on the connections of one pool. */
export function consumeByFetch(url: string, { work, ...spec }: ConsumeSpec, settle: Settle): Promise<Consumer> {
  return startLoops(url, {
    ...spec,
    work: async (boss, jobs) => {
      const ids = jobs.map(({ id }) => id)
      if (work === 'nothing') await settle(boss, ids)
      else await settleWithEffects(boss, ids, work, settle)
    },
  })
}

/** The same of several queues, with handlers that do nothing. */
export function followByFetch(
  url: string,
  queues: readonly string[],
  spec: Omit<FollowSpec, 'groups'>,
): Promise<Consumer> {
  return startLoops(url, {
    ...spec,
    queues,
    work: async (boss, jobs) => {
      const [job] = jobs
      const ids = jobs.map(({ id }) => id)
      if (job !== undefined) await boss.complete(job.name, ids)
    },
  })
}

/** The same, with handlers that run side by side. A batch is settled when the last of them has ended. */
export function leaseByFetch(
  url: string,
  { batchSize, inHand, handle, onSettled }: LeaseSpec,
  settle: Settle,
): Promise<Consumer> {
  return startLoops(url, {
    batchSize,
    inFlight: inHand / batchSize,
    onSettled,
    work: async (boss, jobs) => {
      if (handle !== undefined) await Promise.all(jobs.map(({ data }) => handle(data)))
      await settle(
        boss,
        jobs.map(({ id }) => id),
      )
    },
  })
}

async function startLoops(url: string, spec: LoopSpec): Promise<Consumer> {
  const boss = await startPgBoss(url)
  const stopping = new AbortController()
  const loops = (spec.queues ?? ['bench']).flatMap((queue) =>
    Array.from({ length: spec.inFlight }, () => loop(boss, queue, spec, stopping.signal)),
  )
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
      await boss.stop()
    },
  }
}

async function loop(
  boss: PgBoss,
  queue: string,
  { batchSize, work, onSettled }: LoopSpec,
  stopping: AbortSignal,
): Promise<void> {
  while (!stopping.aborted) {
    const jobs = await boss.fetch<Payload>(queue, { batchSize })
    if (jobs.length === 0) await sleep(IDLE_MS)
    else await work(boss, jobs)
    onSettled(jobs.length)
  }
}

async function settleWithEffects(boss: PgBoss, ids: string[], work: Work, settle: Settle): Promise<void> {
  const transaction = await boss.getDb().beginTransaction?.()
  if (transaction === undefined) throw new Error('Expected a pool that begins transactions')
  if (work === 'insert batch') await transaction.db.executeSql(INSERT_EFFECTS, [ids])
  else for (const id of ids) await transaction.db.executeSql(INSERT_EFFECT, [id])
  await settle(boss, ids, { db: transaction.db })
  await transaction.commit()
}
