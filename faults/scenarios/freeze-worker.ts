import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'

/**
 * By turns before its effect and behind it. An effect has the time at which it was written: who stands still behind it
 * and goes on after all is not late. So the twin, which is broken once, stands still before.
 */
const MOMENTS = ['handling', 'effects'] as const

/** The server gives a batch twice the handler's second and one more; then the rest of the fleet has its messages. */
const RECOVERY_MS = 6_000
const FREEZE_MS = 9_000

/**
 * A worker that stands still in mid-transaction (a debugger, a laptop's lid, a machine without memory) keeps its rows
 * until the server ends its transaction. It goes on later, and must not get to commit.
 */
export const freezeWorker = scenario({
  name: 'freeze-worker',
  title: 'SIGSTOP a worker that has messages in hand, past its time limit, and let it go on',
  recoveryMs: RECOVERY_MS,
  injections: { quick: 1, full: 6 },
  deathsCount: true,
  twin: {
    name: 'no-limit-on-the-server',
    title: 'a batch whose transaction the server does not end',
    edits: [
      {
        file: 'transaction/transaction-settings.ts',
        from: 'if (serverVersion < 170_000) return idle',
        to: "if (serverVersion > 0) return ''",
      },
    ],
    // A batch of messages that fail on purpose would be late unseen.
    load: { failing: 0, dying: 0, delayed: 0 },
    caught: ['late', 'stuck'],
  },
  async inject(stage, at) {
    const { actor } = stage.victim()
    actor.order({ kind: 'signal', signal: 'SIGSTOP', at: MOMENTS[at % MOMENTS.length] ?? 'handling' })
    await until(() => isStopped(actor.pid), `${actor.name} to stand still`, 10_000)
    const beganAt = Date.now()
    await stage.writeFault('stopped in mid-handler', beganAt, beganAt)
    await until(() => stage.caughtUp(), 'its messages to be handled by others', FREEZE_MS).catch(() => undefined)
    actor.signal('SIGCONT')
  },
})

async function isStopped(pid: number): Promise<boolean> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', String(pid)])
  return stdout.startsWith('T')
}
