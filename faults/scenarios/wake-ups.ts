import { setTimeout as pause } from 'node:timers/promises'
import { networkOf } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'

/** Nothing is enqueued but by the scenario, so that nothing else wakes a worker. */
const SILENCE = { lanes: 0 } as const

/** What has not been handled by then will not be. */
const LOST_MS = 4_000

/** How long it takes until the server hears that the worker is about to sleep, and when in that time somebody commits. */
const SLOW_MS = 900
const COMMITS_MS = 200

/**
 * The gap through which wake-ups get lost: a worker has looked and found nothing, and does not sleep yet. What is
 * committed then is announced to nobody. It looks once more after it has raised the flag, and the poll is a minute off.
 */
export const commitBeforeSleep = scenario({
  name: 'commit-before-sleep',
  title: 'a commit between the last look of a worker and its sleep, with the poll a minute away',
  recoveryMs: 2_000,
  injections: { quick: 3, full: 20 },
  load: SILENCE,
  flow: 0,
  // With one batch in flight at most, the flag goes down with each message.
  workers: { count: 1, network: true, pollIntervalMs: 60_000, pipeline: { concurrency: 1 } },
  otherwise: { injections: { quick: 1, full: 20 } },
  twin: {
    name: 'flag-without-second-look',
    title: 'a worker that does not look again after it has raised its flag',
    edits: [
      {
        file: 'wake-up/waiting-flag.ts',
        from: '      this.#options.onCheckAgain()\n    } else if',
        to: '    } else if',
      },
    ],
    caught: ['stuck', 'late'],
  },
  async inject(stage) {
    const network = networkOf(stage.victim())
    network.requestDelayMs = (application) => (application === 'sluice control' ? SLOW_MS : 0)
    const seen = network.statements.length
    await stage.enqueue('ack')
    const raises = () => network.statements.slice(seen).some(({ text }) => text.startsWith('sluice_flag_raise'))
    await until(raises, 'the worker to raise its flag', 10_000)
    // Its last looks are over, and the flag is on its slow way to the server.
    await pause(COMMITS_MS)
    const unseen = await stage.fault('committed unseen', () => stage.enqueue('ack'))
    network.requestDelayMs = () => 0
    await stage.handled(unseen, LOST_MS)
  },
})

/** One of two sleeping workers holds the flag, and the other relies on it. The poll covers for the one who vanishes. */
export const killSleeper = scenario({
  name: 'kill-sleeper',
  title: 'SIGKILL the sleeping worker that the next enqueue would notify, then enqueue',
  recoveryMs: 3_000,
  injections: { quick: 2, full: 10 },
  costsAttempts: true,
  load: SILENCE,
  flow: 0,
  twin: {
    name: 'no-poll',
    title: 'a worker without the safety poll',
    edits: [
      {
        file: 'wake-up/poll.ts',
        from: '    if (this.#stopped) return\n    const random',
        to: '    if (delayMs > 0) return\n    const random',
      },
    ],
    caught: ['stuck', 'late'],
  },
  async inject(stage) {
    const holder = async () => {
      const [row] = await stage.sql(`
        SELECT w.pid FROM pg_locks f JOIN pg_locks l ON l.pid = f.pid AND l.classid = 746502 AND l.objsubid = 2
        JOIN sluice.worker w ON w.id::oid = l.objid
        WHERE f.locktype = 'advisory' AND f.classid = 746501 AND f.mode = 'ExclusiveLock' AND f.granted
          AND f.database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
      return row?.pid
    }
    // Both have worked, so that neither is still on its way to its first sleep.
    for (const id of await stage.enqueueAll(WARM_UP)) await stage.handled(id, 30_000)
    const stillMs = stage.broken ? STILL_WITHOUT_POLL_MS : STILL_MS
    await until(async () => (await stage.sql(AWAKE, [stillMs])).length === 0, 'all workers to sleep', 30_000)
    const pid = await until(holder, 'one of them to hold the flag', 10_000)
    const sleeper = stage.fleet.workers.find(({ actor }) => actor.pid === pid)
    if (sleeper === undefined) throw new Error(`Expected one of the fleet to sleep, received ${String(pid)}`)
    await sleeper.actor.kill()
    const unheard = await stage.fault('its notification went nowhere', () => stage.enqueue('ack'))
    await stage.handled(unheard, LOST_MS)
    await stage.fleet.startWorker()
  },
})

/** Longer than a process looks again before it sleeps, and shorter than the poll. */
const STILL_MS = 300
/** Where there is no poll to be shorter than, a busy machine has more time. */
const STILL_WITHOUT_POLL_MS = 1_500

const WARM_UP = Array.from({ length: 20 }, () => ({ fate: 'ack', failures: 0 }) as const)

/** Sessions of workers that have done something lately. */
const AWAKE = `
SELECT FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'sluice%'
  AND (state <> 'idle' OR state_change > pg_catalog.clock_timestamp() - $1::double precision * interval '1 millisecond')`
