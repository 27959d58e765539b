import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectionOptions, PgBoss } from 'pg-boss'
import type { Consumer, ConsumeSpec, Work } from '../contestant.ts'
import { INSERT_EFFECT, INSERT_EFFECTS } from '../effects.ts'
import { startPgBoss } from './pg-boss-jobs.ts'

/** What is to become of jobs that are done; in the transaction of `options.db`, if there is one. */
export type Settle = (boss: PgBoss, ids: string[], options?: ConnectionOptions) => Promise<unknown>

const IDLE_MS = 10

/** Loops of fetch and settle, as many as batches are in flight, on the connections of one pool. */
export async function consumeByFetch(url: string, spec: ConsumeSpec, settle: Settle): Promise<Consumer> {
  const boss = await startPgBoss(url)
  const stopping = new AbortController()
  const loops = Array.from({ length: spec.inFlight }, () => loop(boss, spec, settle, stopping.signal))
  return {
    stop: async () => {
      stopping.abort()
      await Promise.all(loops)
      await boss.stop()
    },
  }
}

async function loop(boss: PgBoss, spec: ConsumeSpec, settle: Settle, stopping: AbortSignal): Promise<void> {
  while (!stopping.aborted) {
    const jobs = await boss.fetch('bench', { batchSize: spec.batchSize })
    const ids = jobs.map((job) => job.id)
    if (ids.length === 0) await sleep(IDLE_MS)
    else if (spec.work === 'nothing') await settle(boss, ids)
    else await settleWithEffects(boss, ids, spec.work, settle)
    spec.onSettled(ids.length)
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
