import { checkId } from '../basics/checks/check-id.ts'
import { hasSqlState, INSUFFICIENT_PRIVILEGE } from '../basics/errors/sql-state.ts'
import { Gate } from '../basics/promises/gate.ts'
import type { Duration } from '../basics/time/duration.ts'
import { privilegeMissing } from '../connection/privilege.ts'
import { toOutcome } from '../handle/to-outcome.ts'
import type { Message, Outcome } from '../message.ts'
import { checkQueueName, type QueueDefinitions } from '../queues.ts'
import { MAX_ATTEMPTS, retryPolicy } from '../retry-policy.ts'
import type { Alphabet } from '../session/alphabet.ts'
import { ownActionsBy } from '../table/operate/actor.ts'
import { claimUnknown, toClaimError } from '../table/pull/claim-errors.ts'
import { releaseClaim, renewClaim } from '../table/pull/settle-claim.ts'
import {
  type ClaimTerms,
  popMessages,
  readClaim,
  type TakenClaim,
  takeClaim,
  takeOrPaused,
} from '../table/pull/take.ts'
import { requiringRows } from '../table/rows-missing.ts'
import { checkSchema } from '../table/schema.ts'
import type { Execute } from '../table/statement.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import { type Accepted, accept, unfitEvent } from './accept.ts'
import { Claim, type ClaimKeeper, type ClaimSettlement } from './claim.ts'
import { graceOf, idsOf, leaseOf } from './options.ts'
import { type SettlementPolicies, settleWithPolicies } from './settle-with-policies.ts'

export interface ClaimStoreOptions extends SettlementPolicies {
  readonly definitions: QueueDefinitions | undefined
  /** Runs work in a transaction of Sluice's own, with a time limit for each answer. */
  readonly host: InOwnTransaction
  /** What is stored of errors must fit the database's encoding. */
  readonly alphabet: Alphabet
}

/** Claims, settles, renews and releases, by the functions of the schema, each in a short transaction. */
export class ClaimStore implements ClaimKeeper {
  readonly #options: ClaimStoreOptions
  readonly #gate: Gate
  #schemaFits = false

  constructor(options: ClaimStoreOptions, gate = new Gate(CONNECTIONS)) {
    this.#options = options
    this.#gate = gate
  }

  /** The same, for an operator: what it does to claims is noted under a name. */
  by(name: string): ClaimStore {
    const host: InOwnTransaction = (work, answerMs) =>
      this.#options.host((execute) => ownActionsBy(execute, name, work), answerMs)
    return new ClaimStore({ ...this.#options, host }, this.#gate)
  }

  /** Claims messages. Undefined: there is none. */
  take(queue: string, terms: ClaimTerms): Promise<Claim | undefined> {
    return this.#take(queue, (execute) => takeClaim(execute, queue, terms))
  }

  /** For a claim that waits: if there is no message, it also says whether the queue is paused. */
  takeOrPaused(queue: string, terms: ClaimTerms): Promise<Claim | 'paused' | undefined> {
    return this.#take(queue, (execute) => takeOrPaused(execute, queue, terms))
  }

  async #take<None extends 'paused' | undefined>(
    queue: string,
    send: (execute: Execute) => Promise<TakenClaim | None>,
  ): Promise<Claim | None> {
    for (;;) {
      const taken = await this.#run(send)
      if (typeof taken !== 'object') return taken
      const messages = await this.#accept(queue, taken).catch(async (error: unknown) => {
        // Its number is lost, so it would keep its messages until it ends, and count as a failed attempt.
        await this.release(queue, taken.id).catch(() => undefined)
        throw error
      })
      if (messages.length > 0) return new Claim(this, queue, taken.id, taken.expiresAt, messages)
    }
  }

  /**
   * The unsettled messages of a claim. Another process may be working on them, so those that do not fit their schema are
   * left out, and stay as they are.
   */
  async get(queue: string, id: string): Promise<Claim> {
    const [name, claimId] = this.#check(queue, id)
    const taken = await this.#run((execute) => readClaim(execute, name, claimId))
    if (taken === undefined) throw claimUnknown(name, claimId)
    const { messages } = await this.#validated(name, taken)
    const left = taken.rows.map((row) => row.id)
    return new Claim(this, name, claimId, taken.expiresAt, messages, left)
  }

  async renew(queue: string, id: string, lease?: Duration, grace?: Duration): Promise<Date> {
    const [name, claimId] = this.#check(queue, id)
    const leaseMs = lease === undefined ? null : leaseOf('renew', lease)
    const graceMs = grace === undefined ? null : graceOf('renew.grace', grace)
    return this.#run((execute) => renewClaim(execute, name, claimId, { leaseMs, graceMs }))
  }

  async release(queue: string, id: string): Promise<number> {
    const [name, claimId] = this.#check(queue, id)
    return this.#run((execute) => releaseClaim(execute, name, claimId))
  }

  async settle(queue: string, id: string, which: unknown, outcome?: Outcome): Promise<ClaimSettlement> {
    const [name, claimId] = this.#check(queue, id)
    const ids = idsOf('settle', which)
    const checked = toOutcome(outcome, 'settle', 'As in settle(message, retryLater())')
    const ends = await this.#settle(name, claimId, ids, checked)
    return {
      settled: ends.flatMap((end) => (end.refused === undefined ? [end.id] : [])),
      refused: ends.flatMap((end) => (end.refused === undefined ? [] : [{ id: end.id, reason: end.refused }])),
    }
  }

  /**
   * Removes messages, and returns them. With a schema they are claimed first, because one that does not fit is to be tried
   * again.
   */
  async pop(queue: string, limit: number): Promise<readonly Message[]> {
    if (this.#options.definitions?.[queue]?.schema !== undefined) {
      const claim = await this.take(queue, { limit, leaseMs: POP_MS, graceMs: 0, maxAttempts: MAX_ATTEMPTS })
      if (claim === undefined) return []
      const { settled } = await claim.settle(claim.messages)
      return claim.messages.filter(({ id }) => settled.includes(id))
    }
    const rows = await this.#run((execute) => popMessages(execute, queue, limit))
    const { messages } = await accept(queue, rows, undefined, 0)
    return messages
  }

  #check(queue: unknown, id: unknown): readonly [string, string] {
    return [checkQueueName(queue, this.#options.definitions), checkId(id, 'claim', 'claim')]
  }

  /** The messages that fit their schema. For the others an attempt has failed. */
  async #accept(queue: string, taken: TakenClaim): Promise<readonly Message[]> {
    const { messages, unfit } = await this.#validated(queue, taken)
    for (const one of unfit) {
      const { message, error } = one
      // The wait is that of a pipeline without options, drawn here so that it can be reported.
      const afterMs = RETRY(message.attempt, error)
      const [end] = await this.#settle(queue, taken.id, [message.id], { kind: 'retryLater', afterMs, error })
      if (end !== undefined && end.refused === undefined) this.#options.report(unfitEvent(one, end.dead, afterMs))
    }
    return messages
  }

  /** Half of the time that is left is kept for what is done then. */
  #validated(queue: string, { rows, leftMs }: TakenClaim): Promise<Accepted> {
    return accept(queue, rows, this.#options.definitions?.[queue], leftMs / 2)
  }

  #settle(queue: string, id: string, ids: readonly string[], outcome: Outcome) {
    const { alphabet } = this.#options
    const texts = ['reason' in outcome ? outcome.reason : '', 'error' in outcome ? (outcome.error ?? '') : '']
    return this.#run(async (execute) => {
      await alphabet.learnUnknown(execute, texts)
      const fitted = { ...outcome, ...fitTexts(outcome, (text) => alphabet.fit(text)) }
      return settleWithPolicies(execute, queue, id, ids, fitted, this.#options)
    })
  }

  async #run<T>(work: (execute: Execute) => Promise<T>): Promise<T> {
    const leave = await this.#gate.enter()
    try {
      return await this.#options.host(async (execute) => {
        if (!this.#schemaFits) await checkSchema(execute)
        this.#schemaFits = true
        return requiringRows(work(execute))
      }, ANSWER_MS)
    } catch (error) {
      throw hasSqlState(error, INSUFFICIENT_PRIVILEGE) ? privilegeMissing('sluice_claimer', error) : toClaimError(error)
    } finally {
      leave()
    }
  }
}

/** The texts of an outcome, as the database can hold them. */
function fitTexts(outcome: Outcome, toFit: (text: string) => string): object {
  const none = { reason: undefined, error: undefined }
  const { reason, error }: { readonly reason?: string | undefined; readonly error?: string | undefined } = {
    ...none,
    ...outcome,
  }
  return {
    ...(reason !== undefined && { reason: toFit(reason) }),
    ...(error !== undefined && { error: toFit(error) }),
  }
}

const RETRY = retryPolicy(undefined)

/** Settlements of many handlers at once must not use up the server's connections. */
const CONNECTIONS = 10
const ANSWER_MS = 30_000
/** How long a pop may take with a schema, after which its messages are free for others. */
const POP_MS = 60_000
