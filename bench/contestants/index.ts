import type { Contestant } from '../contestant.ts'

/** Loaded when needed, so that a sample's process holds nothing but its own contestant. */
const LOADERS: Readonly<Record<string, () => Promise<Contestant>>> = {
  pgbench: async () => (await import('./pgbench.ts')).pgbench,
  'raw-loop': async () => (await import('./raw-loop.ts')).rawLoop,
  'raw-loop-kept-plans': async () => (await import('./raw-loop-kept-plans.ts')).rawLoopKeptPlans,
  'listen-loop': async () => (await import('./listen-loop.ts')).listenLoop,
  'sluice-without-trigger': async () => (await import('./sluice-without-trigger.ts')).sluiceWithoutTrigger,
  sluice: async () => (await import('./sluice.ts')).sluice,
  'pg-boss': async () => (await import('./pg-boss.ts')).pgBoss,
  'pg-boss-delete': async () => (await import('./pg-boss-delete.ts')).pgBossDelete,
  'graphile-worker': async () => (await import('./graphile-worker.ts')).graphileWorker,
  'graphile-worker-local-queue': async () =>
    (await import('./graphile-worker-local-queue.ts')).graphileWorkerLocalQueue,
}

export const CONTESTANTS: readonly string[] = Object.keys(LOADERS)

export async function loadContestant(name: string): Promise<Contestant> {
  const load = LOADERS[name]
  if (load === undefined) throw new Error(`Expected one of ${CONTESTANTS.join(', ')}, received ${name}`)
  return load()
}
