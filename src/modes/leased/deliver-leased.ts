import { Gate } from '../../basics/promises/gate.ts'
import { leaseLost } from '../../errors.ts'
import { acceptPayload } from '../../handle/admit.ts'
import { type Called, CallFailed } from '../../handle/call.ts'
import { Caller } from '../../handle/caller.ts'
import type { Consumption } from '../../handle/consumption.ts'
import { Deadlines } from '../../handle/deadlines.ts'
import { HeardLater } from '../../handle/heard.ts'
import type { Outcome } from '../../message.ts'
import type { LeasedPlan } from '../../plan/options.ts'
import { ACK, decideAcked } from '../../settle/decide.ts'
import type { SettledMessage } from '../../settle/settled-messages.ts'
import { claimLocked } from '../../table/claim/claim-locked.ts'
import { leaseOf } from '../../table/claim/lease.ts'
import { insertMessage } from '../../table/enqueue/insert.ts'
import type { InsertRow } from '../../table/enqueue/insert-row.ts'
import { inOwnTransaction } from '../../transaction/own-transaction.ts'
import type { Runtime } from '../runtime.ts'
import { LeasedAttempt } from './leased-attempt.ts'
import { LeasedMessage } from './leased-message.ts'
import { Renewals } from './settle/renewals.ts'
import { Settler } from './settle/settler.ts'

/**
 * Handles one message as a leased pipeline does, for a test. One transaction inserts and leases it, so no other session
 * claims it. It is removed whatever becomes of it, unless its lease is lost.
 *
 * @throws what the handler throws; SluiceError HANDLER_TIMEOUT, LEASE_LOST
 */
export async function deliverLeased(
  worker: Runtime,
  consumption: Consumption<LeasedPlan>,
  row: InsertRow,
): Promise<Outcome> {
  const { leaseMs, queue } = consumption.plan
  // It was never in the queue.
  const runtime = { ...worker, historyBy: () => undefined }
  const { leased, clock } = await insertLeased(runtime, consumption.plan, row)
  let removed = false
  const onSettled = (settled: readonly SettledMessage[]) => {
    // What the server refuses to remove fails, or is put aside.
    removed = settled.every(({ outcome }) => outcome.kind === 'ack')
  }
  const settler = new Settler(runtime, { ...consumption, onSettled }, { ended: () => renewals.delete(leased) })
  const renewals = new Renewals(leaseMs, (leases) => void settler.renew(leases))
  settler.setClock(clock)
  renewals.add([leased])
  const handled = handle(runtime, consumption, settler, leased)
  await Promise.allSettled([handled])
  settler.settle(leased, decideAcked(leased))
  await leased.ended
  runtime.inHand.end(leased.batchId)
  if (!removed) throw leaseLost(queue, leased.id)
  return handled
}

async function handle(
  runtime: Runtime,
  consumption: Consumption<LeasedPlan>,
  settler: Settler,
  leased: LeasedMessage,
): Promise<Outcome> {
  const { plan } = consumption
  const options = { runtime, queue: plan.queue, enqueue: runtime.enqueue, gate: new Gate(1), renew: settler.renew }
  const deadline = new Deadlines(plan.timeoutMs, 'handler').next()
  leased.hear({ lost: (reason) => deadline.stop(reason), cancelled: () => undefined })
  const attempt = () => new LeasedAttempt(options, [leased])
  try {
    await acceptPayload(leased, runtime.definitionOf(plan), deadline)
    const caller = new Caller(consumption, { attempt, cancel: async () => undefined }, runtime.instruments)
    const heard = new HeardLater<Called>()
    const called = caller.call([leased], deadline, heard) ?? (await heard.result)
    if (called instanceof CallFailed) throw called.error
    const [outcome = ACK] = called
    if (outcome.kind === 'release') throw new TypeError('release: expected a handler of batches')
    return outcome
  } finally {
    deadline.end()
  }
}

async function insertLeased(runtime: Runtime, { queue, leaseMs: ms }: LeasedPlan, row: InsertRow) {
  const { inHand, connections, serverVersion } = runtime
  const batchId = inHand.reserve()
  const lease = leaseOf(inHand.workerId, batchId)
  const sentAtMs = performance.now()
  const claimed = await inOwnTransaction(connections.calls, async (execute) => {
    const id = await insertMessage(execute, queue, row)
    return claimLocked(execute, queue, [id], { lease, ms, serverVersion: serverVersion() })
  })
  const clock = { nowUs: claimed.nowUs, sentAtMs, answeredAtMs: performance.now() }
  const claim = { lease, batchId, ms, claimedAtMs: sentAtMs, claimedUs: claimed.nowUs }
  const messages = claimed.rows.map((taken) => new LeasedMessage(queue, taken, claim))
  const record = { id: batchId, queue, messageIds: messages.map(({ id }) => id), attempts: messages.map(() => 0) }
  await inHand.recorded({ ...record, leased: true }, false)
  const [leased] = messages
  if (leased === undefined) throw new TypeError('claim_locked: expected the message that was inserted')
  return { leased, clock }
}
