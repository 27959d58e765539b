import type { PipelinePlan } from '../../plan/options.ts'
import { forgetEvidence } from '../../table/settle/settle.ts'
import {
  ackLeased,
  deadLetterLeased,
  type LeasedId,
  postponeLeased,
  renewLeases,
  stillLeased,
} from '../../table/settle/settle-leased.ts'
import type { Execute } from '../../table/statement.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import { BatchConnection } from '../../transaction/batch-connection.ts'
import type { Runtime } from '../runtime.ts'
import type { Outcomes } from './outcomes.ts'

/** Sends settlements and renewals, each in a transaction of its own and in one round trip. */
export class LeaseWriter {
  readonly #runtime: Runtime
  readonly #plan: PipelinePlan
  #connection: BatchConnection | undefined
  #cut = false

  constructor(runtime: Runtime, plan: PipelinePlan) {
    this.#runtime = runtime
    this.#plan = plan
  }

  get isCut(): boolean {
    return this.#cut
  }

  cut(): void {
    this.#cut = true
    this.#connection?.break('The pipeline has stopped')
  }

  /**
   * Resolves with the ids that were renewed.
   *
   * @param careful leaves out what others have locked, which takes a round trip more
   */
  renew(old: readonly LeasedId[], careful: boolean): Promise<ReadonlySet<string>> {
    const { queue, leaseMs } = this.#plan
    const version = this.#runtime.serverVersion()
    return this.#write(careful ? old : undefined, (execute, free) => [
      renewLeases(
        execute,
        queue,
        old.filter(({ id }) => free(id)),
        leaseMs,
        version,
      ),
    ])
  }

  /** Resolves with the ids that were found under their leases, and settled. */
  settle(outcomes: Outcomes, careful: boolean): Promise<ReadonlySet<string>> {
    const { queue } = this.#plan
    const version = this.#runtime.serverVersion()
    const { acked, postponed, dead, forgotten, nowUs } = outcomes.writes
    return this.#write(careful ? outcomes.messages : undefined, (execute, free) => {
      const ours = <Row extends { readonly id: string }>(rows: readonly Row[]) =>
        rows.filter(({ id }) => free(id)).map((row) => outcomes.leased(row))
      const [acks, later, gone] = [ours(acked.map((id) => ({ id }))), ours(postponed), ours(dead)]
      return [
        ...(acks.length > 0 ? [ackLeased(execute, queue, acks, version)] : []),
        ...(later.length > 0 ? [postponeLeased(execute, queue, later, nowUs, version)] : []),
        ...(gone.length > 0 ? [deadLetterLeased(execute, queue, gone, version)] : []),
        ...(forgotten.length > 0 ? [forgetEvidence(execute, queue, forgotten).then(() => [])] : []),
      ]
    })
  }

  async #write(
    locked: readonly LeasedId[] | undefined,
    send: (execute: Execute, free: (id: string) => boolean) => readonly Promise<readonly string[]>[],
  ): Promise<ReadonlySet<string>> {
    const connection = await BatchConnection.acquire(this.#runtime.pool)
    this.#connection = connection
    const limit = setTimeout(() => connection.break(`No answer within ${ANSWER_MS} ms`), ANSWER_MS)
    const begin = () => connection.begin({ ms: ANSWER_MS, serverVersion: this.#runtime.serverVersion() }, LOCK_MS)
    try {
      if (locked !== undefined) begin()
      const unlocked =
        locked &&
        new Set(await stillLeased(connection.execute, this.#plan.queue, locked, this.#runtime.serverVersion()))
      const [sent, committed] = connection.together(() => {
        if (locked === undefined) begin()
        return [send(connection.execute, (id) => unlocked?.has(id) ?? true), connection.commit()]
      })
      // The statement's error first: it is why COMMIT did not commit.
      await allAnswered([...sent.map((answer) => answer.then(() => undefined)), committed])
      return new Set((await Promise.all(sent)).flat())
    } catch (error) {
      await connection.abandon()
      throw error
    } finally {
      clearTimeout(limit)
      this.#connection = undefined
      connection.release()
    }
  }
}

/** What the server may take for it. */
const ANSWER_MS = 10_000

/** A row is locked for longer only by somebody who handles it in a transaction, or by hand. */
const LOCK_MS = 500
