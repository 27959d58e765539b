import { networkOf } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'
import { swallowsFromCommit } from './network.ts'

/** A stop with a timeout of a second ends six or seven seconds later, and a new process starts. */
const RECOVERY_MS = 18_000
const KILL_MS = 30_000
const STOP_MS = 1_000

/** As in a roll-out: the next process starts when the last has ended, and until then nobody works. */
export const stopInBlackHole = scenario({
  name: 'stop-in-black-hole',
  title: 'the only worker is stopped while its network swallows everything, and replaced when it has ended',
  recoveryMs: RECOVERY_MS,
  injections: { quick: 1, full: 3 },
  // It is gone without a word to the server.
  costsAttempts: true,
  workers: { count: 1, network: true },
  twin: {
    name: 'stop-without-limit',
    title: 'a stop that waits for all unanswered statements',
    edits: [
      { file: 'basics/time/within.ts', from: 'pause(ms, over.signal)', to: 'pause(ms * 1_000, over.signal)' },
      { file: 'process/assembly.ts', from: '}, drainMs + STOP_MS)', to: '}, 1_000 * (drainMs + STOP_MS))' },
      {
        file: 'transaction/answer-limit.ts',
        from: 'startTimer(() => void this.#check(), ',
        to: 'setTimeout(() => {}, ',
      },
    ],
    caught: ['late', 'stuck'],
  },
  async inject(stage) {
    const worker = stage.victim()
    await stage.fault('told to stop in a black hole', async () => {
      await swallowsFromCommit(networkOf(worker))
      worker.actor.order({ kind: 'stop', timeoutMs: STOP_MS })
    })
    // One that does not end is killed at last, so that the run comes to its end.
    await until(() => worker.actor.hasEnded, `${worker.actor.name} to stop`, KILL_MS).catch(() => worker.actor.kill())
    await stage.fleet.startWorker()
    await until(() => stage.caughtUp(), 'all to be handled', RECOVERY_MS).catch(() => undefined)
    networkOf(worker).loseHalfOpen()
  },
})
