import type { Admission, Admitted, AdmittedDemand, Nothing } from '../claim/admission.ts'
import type { ClaimAnswer, SentClaim } from '../claim/claim-answer.ts'
import { type ClaimCheck, Claimer } from '../claim/claimer.ts'
import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { Limiter } from '../claim/limiter.ts'
import type { TransactionalPlan } from '../plan/options.ts'
import { LockedRows } from '../settle/locked-rows.ts'
import { Settlement } from '../settle/settlement.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { claimAgain } from '../table/claim/claim-again.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import type { Execute } from '../table/statement.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import { type ClockAnswer, rulesOf, type SourceRuntime } from './rules-of.ts'
import type { TransactionalSource } from './source.ts'

/** The messages of a queue: each transaction keeps the rows of its batch locked until it has settled them. */
export class LockedSource implements TransactionalSource {
  readonly wokenBy = undefined
  readonly #runtime: SourceRuntime
  readonly #plan: TransactionalPlan
  readonly #claimer: Claimer
  readonly #limiter: Limiter
  /** How many batches are wanted in flight. */
  #concurrency: number

  constructor(
    runtime: SourceRuntime,
    plan: TransactionalPlan,
    check: ClaimCheck | undefined,
    random: () => number = Math.random,
  ) {
    const { queue, concurrency } = plan
    this.#runtime = runtime
    this.#plan = plan
    this.#concurrency = concurrency
    const { control, settings } = runtime
    this.#limiter = new Limiter(queue, control, settings)
    this.#claimer = new Claimer(plan, control, check, random)
  }

  /** A queue that is never empty has rounds that never end, and may get its first limit meanwhile. */
  get isSingle(): boolean {
    return this.#limiter.active
  }

  admit(demand: AdmittedDemand, most: number): Promise<Admission | Nothing> {
    return this.#limiter.admit(demand, most, this.#concurrency)
  }

  send(connection: BatchConnection, terms?: Admitted): SentClaim {
    return this.#claimer.send(connection, terms)
  }

  take(connection: BatchConnection, sent: SentClaim): Promise<ClaimAnswer> {
    return this.#claimer.take(connection, sent)
  }

  unsend(sent: SentClaim | undefined): void {
    this.#claimer.unsend(sent)
  }

  release(rows: readonly ClaimedRow[]): void {
    this.#claimer.release(rows)
  }

  narrow(): void {
    this.#claimer.narrow()
  }

  widen(): void {
    this.#claimer.widen()
  }

  resize(concurrency: number): void {
    this.#concurrency = concurrency
    this.#claimer.resize(concurrency)
  }

  settlement(answer: ClockAnswer): Settlement {
    const rules = rulesOf(this.#runtime, this.#plan, answer)
    const rows = new LockedRows(this.#runtime, this.#plan, rules.clock, answer.nowUs)
    return new Settlement(rules, rows, this.#runtime.alphabet)
  }

  async claimAgain(execute: Execute, { row }: DeliveredMessage): Promise<Settlement | undefined> {
    const { queue, ordered } = this.#plan
    const slot = row.slot ?? (ordered ? WHOLE_QUEUE_SLOT : null)
    const sentAtMs = performance.now()
    const again = await claimAgain(execute, { queue, id: row.id, attempt: row.attempt, dueUs: row.dueUs, slot })
    const answer = { nowUs: again.nowUs, sentAtMs, answeredAtMs: performance.now() }
    return again.rows.length === 0 ? undefined : this.settlement(answer)
  }
}
