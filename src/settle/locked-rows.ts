import type { TransactionalPlan } from '../plan/options.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import { forgetEvidence, type HeldKey, holdKeys } from '../table/settle/around.ts'
import { LOCKED } from '../table/settle/fence.ts'
import type { Execute } from '../table/statement.ts'
import { allAnswered } from '../transaction/all-answered.ts'
import type { DatabaseClock } from './decide.ts'
import type { Decided } from './decision.ts'
import { type RowsIn, type RowsRuntime, sendDecisions } from './send-decisions.ts'
import type { Sink, Writing } from './settlement.ts'

/** Rows that the batch's transaction has locked, with the slots of their keys. What is not decided is free when it ends. */
export class LockedRows implements Sink {
  readonly #runtime: RowsRuntime
  readonly #plan: Pick<TransactionalPlan, 'queue' | 'ordered'>
  readonly #clock: Pick<DatabaseClock, 'passedUs'>
  readonly #claimedUs: number
  readonly partitionOf = undefined

  /** @param claimedUs the database's clock when the batch was claimed, in microseconds since 1970 */
  constructor(
    runtime: RowsRuntime,
    plan: Pick<TransactionalPlan, 'queue' | 'ordered'>,
    clock: Pick<DatabaseClock, 'passedUs'>,
    claimedUs: number,
  ) {
    this.#runtime = runtime
    this.#plan = plan
    this.#clock = clock
    this.#claimedUs = claimedUs
  }

  write(execute: Execute, byId: ReadonlyMap<string, Decided>, forgotten: readonly string[]): Writing {
    const { queue, ordered } = this.#plan
    const { alphabet, serverVersion, historyBy } = this.#runtime
    const decided = [...byId.values()]
    const rowsIn: RowsIn = {
      queue,
      fence: LOCKED,
      serverVersion: serverVersion(),
      alphabet,
      nowUs: Math.floor(this.#clock.passedUs()),
      historyBy: historyBy(queue),
      claimedUs: () => this.#claimedUs,
    }
    const sent = [...sendDecisions(execute, rowsIn, decided).all]
    const held = heldKeys(decided, ordered)
    if (held.length > 0) sent.push(holdKeys(execute, queue, held, this.#claimedUs))
    if (forgotten.length > 0) sent.push(forgetEvidence(execute, queue, forgotten))
    return { written: allAnswered(sent), left: NONE }
  }
}

const NONE: ReadonlySet<string> = new Set()

/**
 * The ordering keys that wait for messages of a batch; a queue that is ordered as a whole has one. A key waits for the last
 * of its messages, so that all of them are due when it goes on with the first.
 */
function heldKeys(decided: readonly Decided[], ordered: boolean): readonly HeldKey[] {
  const held = new Map<string, HeldKey>()
  for (const { decision, message } of decided) {
    const { id, slot, orderingKey } = message.row
    if (decision.kind !== 'later' || (slot === null && !ordered)) continue
    const { dueUs: untilUs } = decision
    const key = orderingKey ?? ''
    const known = held.get(key)
    if (known === undefined) held.set(key, { slot: slot ?? WHOLE_QUEUE_SLOT, orderingKey: key, messageId: id, untilUs })
    else {
      const { others = [] } = known
      held.set(key, { ...known, others: [...others, id], untilUs: Math.max(known.untilUs, untilUs) })
    }
  }
  return [...held.values()]
}
