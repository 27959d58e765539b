import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { LEASE_MS } from '../run/modes.ts'
import { scenario } from '../run/scenario.ts'
import { until } from '../run/until.ts'
import type { Twin } from '../twins/twins.ts'

/**
 * By turns before its effect and behind it. An effect has the time at which it was written: who stands still behind it
 * and goes on after all is not late. So the twin, which is broken once, stands still before.
 */
const MOMENTS = ['handling', 'effects'] as const

const NO_LIMIT_ON_THE_SERVER = {
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
} as const satisfies Twin

/** How much longer than the recovery it stands still. */
const LONGER_MS = 3_000

/**
 * A worker that stands still in mid-transaction (a debugger, a laptop's lid, a machine without memory) keeps its rows
 * until the server ends its transaction. It goes on later, and must not get to commit.
 */
export const freezeWorker = scenario({
  name: 'freeze-worker',
  title: 'SIGSTOP a worker with messages in flight past its time limit, and let it go on',
  // The server gives a batch twice the handler's second and one more; then the rest of the fleet has its messages.
  recoveryMs: 6_000,
  injections: { quick: 1, full: 6 },
  costsAttempts: true,
  otherwise: {
    title: 'SIGSTOP a worker with messages in flight past their leases, and let it go on',
    // The transaction of a handler ends with its lease.
    recoveryMs: LEASE_MS + 4_000,
  },
  stream: {
    injections: { quick: 1, full: 6 },
    title: 'SIGSTOP a worker with events in flight past its time limit, and let it go on',
    twin: NO_LIMIT_ON_THE_SERVER,
  },
  twin: NO_LIMIT_ON_THE_SERVER,
  async inject(stage, at) {
    const { actor } = stage.victim()
    actor.order({ kind: 'signal', signal: 'SIGSTOP', at: MOMENTS[at % MOMENTS.length] ?? 'handling' })
    await until(() => isStopped(actor.pid), `${actor.name} to stand still`, 10_000)
    const beganAt = Date.now()
    await stage.writeFault('stopped in mid-handler', beganAt, beganAt)
    await until(() => stage.caughtUp(), 'its messages to be handled by others', stage.recoveryMs + LONGER_MS).catch(
      () => undefined,
    )
    actor.signal('SIGCONT')
  },
})

export async function isStopped(pid: number): Promise<boolean> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', String(pid)])
  return stdout.startsWith('T')
}
