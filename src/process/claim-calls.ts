import { stopped } from '../errors.ts'
import type { Message } from '../message.ts'
import type { Claim } from '../pull/claim.ts'
import { ClaimStore } from '../pull/claim-store.ts'
import { type ClaimOptions, type PopOptions, resolveClaim, resolvePop } from '../pull/options.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import type { Calls } from './calls.ts'
import type { OnDemand } from './on-demand.ts'
import type { Shared } from './shared.ts'

/** The claims and pops of a Sluice, until it stops. */
export class ClaimCalls {
  /** Settles claims, renews and releases them, also after the stop. */
  readonly store: ClaimStore
  readonly #parts: OnDemand
  readonly #calls: Calls
  #stopping = false

  constructor({ config, alphabet, report }: Shared, parts: OnDemand, calls: Calls) {
    this.#parts = parts
    this.#calls = calls
    const { definitions, storedPolicies: policies, calledPolicies } = config
    const host = this.#inTransaction
    this.store = new ClaimStore({ definitions, policies, calledPolicies, host, alphabet, report })
  }

  async claim(queue: string, options: ClaimOptions): Promise<Claim | undefined> {
    const { terms, waitMs, signal } = resolveClaim(options)
    this.#requireGoing(signal)
    const take = () => this.store.takeOrPaused(queue, terms)
    return this.#calls.run(async () => {
      const found = await this.store.take(queue, terms)
      if (found !== undefined || waitMs === 0) return found
      const lines = await this.#parts.claimLines()
      this.#requireGoing(signal)
      return lines.claim(queue, take, waitMs, signal)
    })
  }

  async pop(queue: string, options: PopOptions): Promise<readonly Message[]> {
    const limit = resolvePop(options)
    this.#requireGoing()
    return this.#calls.run(() => this.store.pop(queue, limit))
  }

  /** Nothing is claimed any more, and those who wait for a claim wait no longer. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#parts.stopClaimLines()
  }

  /** @throws SluiceError STOPPED, and the signal's reason */
  #requireGoing(signal?: AbortSignal): void {
    signal?.throwIfAborted()
    if (this.#stopping) throw stopped('sluice')
  }

  /** A claim can still be settled after the stop, because what is done but not settled is done again. */
  readonly #inTransaction: InOwnTransaction = (work, answerMs) =>
    this.#calls.over
      ? this.#parts.inTransactionApart(work, answerMs)
      : this.#calls.run(() => this.#parts.inOwnTransaction(work, answerMs))
}
