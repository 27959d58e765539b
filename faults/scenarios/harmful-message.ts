import type { Fate } from '../ledger.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'

/** A message that kills whoever handles it, as a process without memory is killed. It must end among the dead letters. */
export const crashLoop = scenario({
  name: 'crash-loop',
  title: 'a message that kills every process that handles it',
  recoveryMs: 15_000,
  injections: { quick: 1, full: 5 },
  costsAttempts: true,
  workers: { kept: true },
  twin: {
    name: 'no-evidence',
    title: 'batches in flight that are not recorded',
    edits: [
      {
        file: 'crash/in-hand.ts',
        from: '        const answer = recordBatches(this.#control.execute, this.workerId, ended, records)\n',
        to: '        const answer = recordBatches(this.#control.execute, this.workerId, ended, [])\n',
      },
    ],
    caught: ['stuck'],
  },
  inject: (stage) => sufferUntilDead(stage, 'poison', 'killed its process until it was dead'),
})

/** A handler that never gives the event loop back: nothing in its process can end it, the server does. */
export const blockedLoop = scenario({
  name: 'blocked-loop',
  title: "a handler that blocks its process's event loop for longer than a transaction may last",
  recoveryMs: 20_000,
  injections: { quick: 1, full: 5 },
  costsAttempts: true,
  workers: { pipeline: { timeout: '500ms' } },
  otherwise: {
    title: "a handler that blocks its process's event loop for longer than its lease lasts",
    // Its time is over before it goes on, and so is its lease.
    workers: { pipeline: { timeout: '3s', lease: '2s', maxAttempts: 6 } },
  },
  twin: {
    name: 'hangs-not-counted',
    title: 'hanging handlers that are not counted',
    edits: [
      {
        file: 'handle/caller.ts',
        from: '    if (time.tookMs > this.consumption.plan.timeoutMs + HUNG_MS) this.#hung = messages\n',
        to: '',
      },
    ],
    caught: ['stuck'],
  },
  inject: (stage) => sufferUntilDead(stage, 'block', 'hung its process until it was dead'),
})

/** A handler that ends its own session: its batch is lost, its process and the server are not. */
export const severedSession = scenario({
  name: 'severed-session',
  title: 'a message whose handler always ends the session of its batch',
  recoveryMs: 6_000,
  injections: { quick: 2, full: 10 },
  workers: { pipeline: { maxAttempts: 3 } },
  otherwise: { title: 'a message whose handler always ends the session of its transaction' },
  twin: {
    name: 'losses-not-counted',
    title: 'lost transactions that count for no message',
    edits: [
      {
        file: 'modes/transactional/lost-batch.ts',
        from: "  if (lost.begun.length === 0 || !isSameSession(runtime, lost)) return 'nothing'\n",
        to: "  if (isSameSession(runtime, lost)) return 'nothing'\n",
      },
    ],
    caught: ['stuck'],
  },
  inject: (stage) => sufferUntilDead(stage, 'sever', 'ended the session of its batch until it was dead'),
})

/** The time counts from the enqueue: what was there then is handled in spite of the deaths that follow. */
async function sufferUntilDead(stage: Stage, fate: Fate, name: string): Promise<void> {
  const id = await stage.enqueue(fate)
  const beganAt = Date.now()
  const isDead = async () => {
    const [row] = await stage.sql('SELECT EXISTS (SELECT FROM sluice.dead_letter WHERE id = $1) AS dead', [id])
    return row?.dead === true
  }
  // What is broken does not die of it, however long one waits.
  await until(isDead, `message ${id} to be dead`, stage.broken ? stage.recoveryMs : DEAD_MS)
  await stage.writeFault(name, beganAt, beganAt)
}

const DEAD_MS = 60_000
