import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import {
  BUCKET_UNWRITTEN,
  FIRST_TENANT_FIRST,
  PERMITS_UNLOCKED,
  PERMITS_WITHOUT_LEASE,
  TENANTS_WITHOUT_LEASE,
} from '../twins/limit-twins.ts'

/** What is told to a queue while its workers run, and what dies of it. */
async function tell(stage: Stage, column: string, value: number): Promise<void> {
  await stage.sql(
    `INSERT INTO sluice.queue (queue, ${column}) VALUES ('load', $1) ON CONFLICT (queue) DO UPDATE SET ${column} = excluded.${column}`,
    [value],
  )
}

/** In the middle of a burst, which waits for the limit. */
async function killOne(stage: Stage): Promise<void> {
  const ids = await stage.enqueueAll(Array.from({ length: BURST }, () => ({ fate: 'ack', failures: 0 }) as const))
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
  load: { lanes: 1, pauseMs: 300, rollbacks: 0, long: 0 },
  flow: 5,
  workers: { count: 3, pollIntervalMs: 200, lingerMs: 20, pipeline: { concurrency: 4, batchSize: 4 } },
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
  const waiting: string[] = []
  const enqueue = async (tenant: string, count: number, fate: 'ack' | 'fail') => {
    const messages = Array.from({ length: count }, () => ({ fate, failures: 0 }))
    waiting.push(...(await stage.enqueueAll(messages, null, tenant)))
  }
  // Not to be in time: they wait for each other.
  for (const large of ['a', 'b', 'c', 'd']) await enqueue(`${large}.${at}`, BACKLOG, 'fail')
  const enqueueSmall = async (when: string) => {
    for (let nth = 1; nth <= 3; nth += 1) await enqueue(`small.${at}.${when}.${nth}`, 1, 'ack')
  }
  await enqueueSmall('before')
  const victim = stage.victim()
  await stage.fault('killed in mid-handler', async () => {
    victim.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
    await victim.actor.ended
  })
  await enqueueSmall('after')
  await stage.replace(victim)
  await enqueueSmall('later')
  for (const id of waiting.toReversed()) await stage.handled(id, 30_000)
}

const OF_TENANT = 2

const BACKLOG = 50

const BURST = 24

const LIMIT = 3

/** Per second: some more than the load, which catches up after a fault. */
const RATE = 6
