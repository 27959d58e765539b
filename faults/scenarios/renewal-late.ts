import { setTimeout as pause } from 'node:timers/promises'
import { networkOf, type WorkerActor } from '../run/fleet.ts'
import { scenario } from '../run/scenario.ts'
import type { Stage } from '../run/stage.ts'
import { until } from '../run/until.ts'
import { NOT_RENEWED, RENEWED_BY_DATE } from '../twins/leased-twins.ts'
import { sends } from './leased-statements.ts'

const NO_LEASE = { inapplicable: 'there is no lease to renew' } as const

/** Long enough that a busy machine renews in what a fault leaves of it. */
const LATE_LEASE_MS = 15_000

/** A renewal that comes late, or gets lost, costs nothing as long as the lease lasts. */
export const renewalLate = scenario({
  name: 'renewal-late',
  title:
    'a handler that outlasts its lease, with a late renewal: in turn, the event loop is blocked past half the lease, and the renewal is lost in a connection that stays half-open',
  mode: 'leased',
  otherwise: NO_LEASE,
  recoveryMs: 10_000,
  injections: { quick: 2, full: 6 },
  // What else is in hand when the event loop stands still may be lost.
  load: { lanes: 0 },
  flow: 0,
  workers: { network: true, pipeline: { lease: LATE_LEASE_MS, timeout: '2m' } },
  twin: NOT_RENEWED,
  async inject(stage, at) {
    const id = await stage.enqueue('hold')
    const worker = await stage.begun(id, 1)
    const endsAt = await leaseEnd(stage, id)
    if (at % 2 === 0) await stage.fault('event loop blocked', () => blockPastHalf(worker))
    else await stage.fault('renewal lost', () => swallowRenewal(stage, worker, id))
    await outlive(stage, id, endsAt)
    networkOf(worker).loseHalfOpen()
  },
})

const CLOCK_LEASE_MS = 10_000
const STEP_MS = 3_600_000

/** A lease is counted in time that has passed, and not in what the clock on the wall says. */
export const processClock = scenario({
  name: 'process-clock',
  title: 'the clocks of all worker processes step by an hour, back and forwards, while a handler outlasts its lease',
  mode: 'leased',
  otherwise: NO_LEASE,
  recoveryMs: 8_000,
  injections: { quick: 2, full: 6 },
  load: { lanes: 1, pauseMs: 500 },
  flow: 5,
  workers: { pipeline: { lease: CLOCK_LEASE_MS, timeout: '2m' } },
  twin: RENEWED_BY_DATE,
  async inject(stage, at) {
    const id = await stage.enqueue('hold')
    await stage.begun(id, 1)
    const endsAt = await leaseEnd(stage, id)
    const ms = at % 2 === 0 ? -STEP_MS : STEP_MS
    await stage.fault(ms < 0 ? 'set back' : 'set forwards', () => {
      for (const { actor } of stage.fleet.workers) actor.order({ kind: 'step', ms })
    })
    await outlive(stage, id, endsAt)
    for (const { actor } of stage.fleet.workers) actor.order({ kind: 'step', ms: -ms })
  },
})

/** Microseconds since 1970, as text. */
async function leaseEnd(stage: Stage, id: string): Promise<string> {
  const text = 'SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE id = $1'
  const [row] = await stage.sql(text, [id])
  return String(row?.us)
}

async function blockPastHalf({ actor }: WorkerActor): Promise<void> {
  const ms = LATE_LEASE_MS * 0.6
  actor.order({ kind: 'block', ms })
  await pause(ms)
}

/** Resolves when a renewal has vanished. The same connection never answers again. */
async function swallowRenewal(stage: Stage, worker: WorkerActor, id: string): Promise<void> {
  const network = networkOf(worker)
  let swallowed = false
  network.passes = (message) => {
    if (swallowed || !sends(message, 'renew_leases')) return true
    swallowed = true
    return 'swallow'
  }
  const isOver = async () => swallowed || (await isTaken(stage, id))
  await until(isOver, 'the lease to be renewed', LATE_LEASE_MS * 2)
}

/** Lets the handler go on when its first lease has ended and a newer one lasts, or when somebody else has the message. */
async function outlive(stage: Stage, id: string, endsAt: string): Promise<void> {
  const isRenewed = async () => {
    const [row] = await stage.sql(OUTLIVED, [id, endsAt])
    return row?.renewed === true || (await isTaken(stage, id))
  }
  await until(isRenewed, `the first lease of message ${id} to be outlasted`, LATE_LEASE_MS * 2)
  stage.fleet.go({ id })
  await stage.handled(id, LATE_LEASE_MS * 2)
}

const OUTLIVED = `
SELECT m.due_at > ended.at AND pg_catalog.clock_timestamp() > ended.at AS renewed
FROM sluice.message m
CROSS JOIN (SELECT timestamptz 'epoch' + $2::bigint * interval '1 microsecond' AS at) ended
WHERE m.id = $1`

async function isTaken(stage: Stage, id: string): Promise<boolean> {
  const rows = await stage.sql('SELECT FROM ledger.started WHERE message_id = $1 AND attempt > 1 LIMIT 1', [id])
  return rows.length > 0
}
