import { scenario } from '../run/scenario.ts'
import type { Stage, StagedMessage } from '../run/stage.ts'
import {
  BUCKET_UNWRITTEN,
  FIRST_TENANT_FIRST,
  PERMITS_UNLOCKED,
  PERMITS_WITHOUT_LEASE,
  TENANTS_WITHOUT_LEASE,
} from '../twins/limit-twins.ts'

/** Tells a queue a limit. */
export async function tell(stage: Stage, column: string, value: number): Promise<void> {
  await stage.sql(
    `INSERT INTO sluice.queue (queue, ${column}) VALUES ('load', $1) ON CONFLICT (queue) DO UPDATE SET ${column} = excluded.${column}`,
    [value],
  )
}

/** Messages that wait for the limit. Returns their ids. */
export function enqueueBurst(stage: Stage): Promise<readonly string[]> {
  return stage.enqueueAll(Array.from({ length: BURST }, () => ({ fate: 'ack', failures: 0 }) as const))
}

/** What is asked of a queue with a limit of messages in flight, and by how many workers. */
export const LIMITED = {
  load: { lanes: 1, pauseMs: 300, rollbacks: 0, long: 0 },
  flow: 5,
  workers: { count: 3, pollIntervalMs: 200, lingerMs: 20, pipeline: { concurrency: 4, batchSize: 4 } },
} as const

/** In the middle of a burst. */
async function killOne(stage: Stage): Promise<void> {
  const ids = await enqueueBurst(stage)
  const victim = stage.victim()
  await stage.fault('killed in mid-handler', async () => {
    victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
    await victim.actor.ended
  })
  await stage.replace(victim)
  // The next one does not begin behind what this one has left.
  for (const id of ids) await stage.handled(id, 30_000)
}

/** The permits of the dead are free at once, and nobody else has more than there are. */
export const killLimited = scenario({
  name: 'kill-limited',
  title: 'SIGKILL workers in mid-handler in a queue with a limit of messages in flight',
  recoveryMs: 10_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  ...LIMITED,
  otherwise: {
    recoveryMs: 30_000,
    workers: { pipeline: { concurrency: 8, batchSize: 4, lease: '10m' } },
    twin: PERMITS_WITHOUT_LEASE,
  },
  twin: PERMITS_UNLOCKED,
  prepare: (stage) => tell(stage, 'concurrency', LIMIT),
  inject: killOne,
})

/** A kill may lose tokens, and never gains any. */
export const killRated = scenario({
  name: 'kill-rated',
  title: 'SIGKILL workers in mid-handler in a queue with a limit of messages per second',
  recoveryMs: 20_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  load: { lanes: 1, pauseMs: 900, rollbacks: 0, long: 0 },
  flow: 5,
  workers: { count: 3, pollIntervalMs: 200 },
  otherwise: { recoveryMs: 25_000 },
  twin: BUCKET_UNWRITTEN,
  async prepare(stage) {
    await tell(stage, 'rate', RATE)
    await tell(stage, 'rate_burst', 3)
  },
  inject: killOne,
})

/** The backlogs of the others together may take all places that there are. */
export const killTenants = scenario({
  name: 'kill-tenants',
  title: 'SIGKILL workers in mid-handler in a queue that tenants share, each with a limit of messages in flight',
  recoveryMs: 15_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  // It has no tenant, and one turn in each round of those that have: on a slow machine more would wait for the backlogs.
  load: { lanes: 1, pauseMs: 900, rollbacks: 0, long: 0 },
  flow: 5,
  workers: { count: 3, pollIntervalMs: 200, lingerMs: 5, pipeline: { concurrency: 1, batchSize: 2 } },
  otherwise: {
    workers: { lingerMs: 15, pipeline: { concurrency: 2, batchSize: 2, lease: '10m' } },
    twin: TENANTS_WITHOUT_LEASE,
  },
  twin: FIRST_TENANT_FIRST,
  prepare: (stage) => tell(stage, 'tenant_concurrency', OF_TENANT),
  inject: killBesideTenants,
})

/** Each of the small tenants has one message, and its turn comes after the same number of others, whoever dies. */
async function killBesideTenants(stage: Stage, at: number): Promise<void> {
  const before = await stage.enqueueAll(ofTenants(`${at}.before`))
  const victim = stage.victim()
  await stage.fault('killed in mid-handler', async () => {
    victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
    await victim.actor.ended
  })
  await stage.replace(victim)
  // However long that took: the small ones come while there is a backlog, and no fault.
  const after = await stage.enqueueAll(ofTenants(`${at}.after`))
  for (const id of [...after, ...before].toReversed()) await stage.handled(id, 30_000)
}

/** The backlogs first. They are not to be in time: they wait for each other. */
function ofTenants(when: string): readonly StagedMessage[] {
  const backlogs = ['a', 'b', 'c', 'd'].flatMap((tenant) =>
    Array.from({ length: BACKLOG }, () => ({ fate: 'fail', failures: 0, tenant: `${tenant}.${when}` }) as const),
  )
  const small = ['1', '2', '3'].map(
    (tenant) => ({ fate: 'ack', failures: 0, tenant: `small.${when}.${tenant}` }) as const,
  )
  return [...backlogs, ...small]
}

const OF_TENANT = 2

/** More than the 30 that may begin while a small tenant waits. */
const BACKLOG = 40

const BURST = 24

export const LIMIT = 3

/** Per second: some more than the load, which catches up after a fault. */
const RATE = 6
