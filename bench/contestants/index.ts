import type { Contestant } from '../contestant.ts'
import { whyMissing } from '../packages.ts'

/** Loaded when needed, so that a sample's process holds nothing but its own contestant. */
const LOADERS: Readonly<Record<string, () => Promise<Contestant>>> = {
  pgbench: async () => (await import('./pgbench.ts')).pgbench,
  'raw-loop': async () => (await import('./raw-loop.ts')).rawLoop,
  'raw-loop-kept-plans': async () => (await import('./raw-loop-kept-plans.ts')).rawLoopKeptPlans,
  'leased-loop': async () => (await import('./leased-loop.ts')).leasedLoop,
  'listen-loop': async () => (await import('./listen-loop.ts')).listenLoop,
  'sluice-without-trigger': async () => (await import('./sluice-without-trigger.ts')).sluiceWithoutTrigger,
  sluice: async () => (await import('./sluice.ts')).sluice,
  'sluice-transactional': async () => (await import('./sluice-transactional.ts')).sluiceTransactional,
  'sluice-before': async () => (await import('./sluice-before.ts')).sluiceBefore,
  'sluice-metrics': async () => (await import('./sluice-telemetry.ts')).sluiceMetrics,
  'sluice-sampled': async () => (await import('./sluice-telemetry.ts')).sluiceSampled,
  'sluice-spans': async () => (await import('./sluice-telemetry.ts')).sluiceSpans,
  'sluice-to-nats': async () => (await import('./to-nats.ts')).sluiceToNats,
  'raw-loop-to-nats': async () => (await import('./to-nats.ts')).rawLoopToNats,
  'sluice-to-rabbitmq': async () => (await import('./to-rabbitmq.ts')).sluiceToRabbitmq,
  'raw-loop-to-rabbitmq': async () => (await import('./to-rabbitmq.ts')).rawLoopToRabbitmq,
  'sluice-inbox': async () => (await import('./sluice-inbox.ts')).sluiceInbox,
  'sluice-through-nats': async () => (await import('./through-nats.ts')).sluiceThroughNats,
  'pg-boss': async () => (await import('./pg-boss.ts')).pgBoss,
  'raw-log': async () => (await import('./raw-log.ts')).rawLog,
  'raw-select': async () => (await import('./raw-select.ts')).rawSelect,
  pgq: async () => (await import('./pgq.ts')).pgq,
  'pg-boss-publish': async () => (await import('./pg-boss-publish.ts')).pgBossPublish,
  'pg-boss-delete': async () => (await import('./pg-boss-delete.ts')).pgBossDelete,
  'graphile-worker': async () => (await import('./graphile-worker.ts')).graphileWorker,
  'graphile-worker-local-queue': async () =>
    (await import('./graphile-worker-local-queue.ts')).graphileWorkerLocalQueue,
}

/** The package that a contestant is made of, where it is not Sluice's or the machine's. */
const PACKAGES: Readonly<Record<string, string>> = {
  'pg-boss': 'pg-boss',
  'pg-boss-delete': 'pg-boss',
  'pg-boss-publish': 'pg-boss',
  'graphile-worker': 'graphile-worker',
  'graphile-worker-local-queue': 'graphile-worker',
}

export const CONTESTANTS: readonly string[] = Object.keys(LOADERS)

export async function loadContestant(name: string): Promise<Contestant> {
  const load = LOADERS[name]
  if (load === undefined) throw new Error(`Expected one of ${CONTESTANTS.join(', ')}, received ${name}`)
  return load()
}

/** Why a contestant cannot be loaded; undefined if it can. */
export function whyNotLoaded(name: string): string | undefined {
  const ofPackage = PACKAGES[name]
  return ofPackage === undefined ? undefined : whyMissing(ofPackage)
}
