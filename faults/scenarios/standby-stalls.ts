import { setTimeout as pause } from 'node:timers/promises'
import { type StandbyPairEnvironment, standbyPairEnvironment } from '../environment/standby-pair.ts'
import { connect } from '../run/environment.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { HANGING } from './fail-over.ts'

const LANES = 3
const WORKERS = 4
const STALL_MS = 8_000

/**
 * A COMMIT that has notified keeps the server's lock for NOTIFY while it waits for its standby. Whatever of a worker
 * waits for that lock must give up on the server too, or each new attempt takes a session more.
 */
export const standbyStalls = scenario<StandbyPairEnvironment>({
  name: 'standby-stalls',
  title:
    'commits that hang for eight seconds because the synchronous standby does not answer, and a worker that starts',
  recoveryMs: 15_000,
  flow: 40,
  injections: { quick: 1, full: 3 },
  // Handlers write into the books, which wait for the standby as well, and are given up.
  costsAttempts: true,
  // A lease must outlast the stall, or it counts as a death.
  otherwise: { injections: { quick: 1, full: 3 }, workers: { count: WORKERS, pipeline: { lease: '30s' } } },
  environment: standbyPairEnvironment,
  load: { lanes: LANES },
  workers: { count: WORKERS },
  twin: {
    name: 'listener-notifies-itself',
    title: 'a listener that sends its self-test and its heartbeat itself, and is impatient',
    edits: [
      {
        file: 'wake-up/watcher.ts',
        from: 'await unlessOver(this.#prove())',
        to: "await unlessOver(subscriber.notify(CHANNEL, '!0!nobody'))",
      },
      {
        file: 'wake-up/watcher.ts',
        from: 'await (listens ? subscriber.unlisten(HEARTBEAT) : subscriber.listenTo(HEARTBEAT))',
        to: "await (listens ? undefined : subscriber.notify(CHANNEL, '!0!nobody'))",
      },
      { file: 'wake-up/watcher.ts', from: 'heartbeatMs ?? 30_000', to: 'heartbeatMs ?? 500' },
      { file: 'wake-up/watcher.ts', from: 'const ANSWER_MS = 5_000', to: 'const ANSWER_MS = 500' },
    ],
    caught: ['stuck'],
  },
  async inject(stage) {
    const most = await stage.fault('stalled', () => stall(stage))
    const allowed = SESSIONS * stage.fleet.workers.length
    if (most > allowed) throw new Error(`Expected at most ${allowed} sessions of workers, received ${most}`)
  },
})

/** The control connection, the listener, and one of either that is being replaced. */
const SESSIONS = 3

/** Returns how many sessions the workers had at most, beside those of batches. */
async function stall({ environment: { pair }, fleet }: Stage<StandbyPairEnvironment>): Promise<number> {
  let most = 0
  pair.freezeReplication()
  const notifier = await connect(pair.url)
  try {
    // Whether one of the producers has notified is a matter of chance.
    const notified = notifier.query(NOTIFY).catch(() => undefined)
    await until(async () => (await pair.primary.sql(HANGING)).length >= LANES, 'all producers to hang', 5_000)
    const end = performance.now() + STALL_MS
    const started = fleet.startWorker()
    while (performance.now() < end) {
      most = Math.max(most, (await pair.primary.sql(OF_WORKERS)).length)
      await pause(200)
    }
    await started
    pair.thawReplication()
    await notified
    return most
  } finally {
    pair.thawReplication()
    await notifier.end()
  }
}

/** What any application may do. Only what is written waits for the standby. */
const NOTIFY = `SELECT pg_notify('application', ''), pg_logical_emit_message(true, 'application', '')`

const OF_WORKERS = `SELECT FROM pg_stat_activity WHERE application_name IN ('sluice control', 'sluice listener')`
