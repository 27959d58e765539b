import { setTimeout as sleep } from 'node:timers/promises'
import { GROUPS } from '../ledger.ts'
import { networkOf, type WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { HEARS_BY_NOTIFICATION, POPS_WHILE_PAUSED } from '../twins/pause-twins.ts'

/** For how long a control connection is refused after the pause was committed: its worker misses the notification. */
const DEAF_MS = 300

/** From when everybody has heard of the pause, until the queue goes on. Longer than the second that the auditor grants. */
const PAUSED_MS = 1_500

/** How often somebody tries to take a message meanwhile. */
const TRY_MS = 100

/**
 * One worker dies as the queue is paused, and its successor starts in the pause. One has no control connection when the
 * pause is committed, so it has to find it in the table. One dies with what it claims first when the queue goes on.
 */
export const pause = scenario({
  name: 'pause',
  title:
    'pause and resume a queue: SIGKILL a worker at the pause and one at the resume, and cut the control connection of a third',
  recoveryMs: 10_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  load: { lanes: 2, pauseMs: 300 },
  workers: {
    count: 3,
    network: true,
    pollIntervalMs: 200,
    // There is something in hand when it is paused, and little begins late.
    lingerMs: 100,
    pipeline: { concurrency: 4, batchSize: 2 },
  },
  otherwise: {
    // Nobody may have to wait for the end of a lease: what a worker claims while it has no control connection is free when
    // it has one again.
    recoveryMs: 15_000,
    workers: { pipeline: { concurrency: 8, batchSize: 4, lease: '10m' } },
    twin: POPS_WHILE_PAUSED,
  },
  stream: {
    title:
      'pause and resume the groups of a stream: SIGKILL a worker at the pause and one at the resume, and cut the control connection of a third',
    injections: { quick: 1, full: 6 },
    workers: { pipeline: { concurrency: 2, batchSize: 2 } },
    twin: HEARS_BY_NOTIFICATION,
  },
  twin: HEARS_BY_NOTIFICATION,
  async inject(stage) {
    const [deaf, killed, last] = stage.fleet.workers
    if (deaf === undefined || killed === undefined || last === undefined) throw new Error('Expected three workers')
    await until(() => isBusy(stage, killed), `${killed.actor.name} to have a message in hand`, 30_000)
    await stage.fault('paused, and went on', async () => {
      await pauseAndResume(stage, { deaf, killed, last })
      await last.actor.ended
    })
    await stage.replace(last)
    // What has been in hand at two deaths already is not to be in hand at more.
    await until(() => stage.caughtUp(), 'what came in the pause to be handled', stage.recoveryMs)
  },
})

interface Victims {
  readonly deaf: WorkerActor
  readonly killed: WorkerActor
  /** It dies when the queue goes on. */
  readonly last: WorkerActor
}

async function pauseAndResume(stage: Stage, { deaf, killed, last }: Victims): Promise<void> {
  const queues = stage.isStream ? GROUPS.map((group) => `${stage.queue}:${group}`) : [stage.queue]
  const network = networkOf(deaf)
  network.refusing = true
  network.cut('sluice control')
  await Promise.all([stage.sql(PAUSE, [queues]), killed.actor.kill()])
  const pausedAt = await clock(stage)
  const over = new AbortController()
  const tries = stage.isStream ? undefined : popUntil(stage, over.signal)
  try {
    const replaced = stage.replace(killed)
    await sleep(DEAF_MS)
    network.heal()
    const isBack = () => network.countOf('sluice control') > 0
    await until(isBack, `${deaf.actor.name} to have its control connection`, 30_000)
    const backAt = await clock(stage)
    await replaced
    await sleep(PAUSED_MS)
    last.actor.order({ kind: 'signal', signal: 'SIGKILL', at: 'handling' })
    const met = [deaf, killed, last].map(({ actor }) => actor.name)
    await stage.sql(WRITE_PAUSE, [pausedAt, deaf.actor.name, backAt, met])
  } finally {
    over.abort()
    await tries
  }
  await stage.sql(RESUME, [queues])
}

/** Takes messages of a queue without a worker, for which the pause is in force with its COMMIT. It gets none. */
async function popUntil(stage: Stage, over: AbortSignal): Promise<void> {
  while (!over.aborted) {
    await stage.sql(POP, [stage.queue])
    await sleep(TRY_MS)
  }
}

async function isBusy(stage: Stage, { actor }: WorkerActor): Promise<boolean> {
  const rows = await stage.sql(
    `SELECT FROM ledger.started s WHERE s.worker = $1
       AND NOT EXISTS (SELECT FROM ledger.effect e WHERE e.message_id = s.message_id AND e.attempt = s.attempt)
       AND s.at > pg_catalog.clock_timestamp() - interval '50 milliseconds'`,
    [actor.name],
  )
  return rows.length > 0
}

/** The database's, as text: a `Date` would lose its microseconds. */
async function clock(stage: Stage): Promise<string> {
  const [row] = await stage.sql('SELECT pg_catalog.clock_timestamp()::text AS now')
  return String(row?.now)
}

const PAUSE = 'SELECT sluice.pause(q.queue) FROM unnest($1::text[]) AS q (queue)'

const RESUME = 'SELECT sluice.resume(q.queue) FROM unnest($1::text[]) AS q (queue)'

const WRITE_PAUSE = `
INSERT INTO ledger.pause (paused_at, deaf, back_at, met, resumed_at)
VALUES ($1::timestamptz, $2, $3::timestamptz, $4::text[], pg_catalog.clock_timestamp())`

const POP = `
WITH popped AS (
  SELECT p.id, p.attempt FROM sluice.pop($1::text) p
), begun AS (
  INSERT INTO ledger.started (message_id, worker, attempt) SELECT id, 'pop', attempt FROM popped RETURNING message_id, attempt
)
INSERT INTO ledger.effect (message_id, worker, attempt) SELECT message_id, 'pop', attempt FROM begun`
