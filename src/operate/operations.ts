import { hasSqlState, INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE } from '../basics/errors/sql-state.ts'
import { Gate } from '../basics/promises/gate.ts'
import type { DirectAddress } from '../connection/in-session.ts'
import { privilegeMissing } from '../connection/privilege.ts'
import { executorOf } from '../enqueue/transaction.ts'
import { ownTransaction } from '../enqueue/within.ts'
import type { Calls } from '../process/calls.ts'
import { checkOperatedQueue, checkStreamName, type KnownNames } from '../streams.ts'
import { orLimitRefused } from '../table/endpoint/limit-refused.ts'
import { actionsBy, ownActionsBy } from '../table/operate/actor.ts'
import { PLAN_BY_INDEX, PLAN_FOR_VALUES } from '../table/planner.ts'
import { checkSchema } from '../table/schema.ts'
import type { Execute, Statement } from '../table/statement.ts'
import type { InOwnTransaction } from '../transaction/own-transaction.ts'
import { tableLocked } from './table-locked.ts'

export interface OperationsOptions {
  readonly host: InOwnTransaction
  readonly direct: DirectAddress
  /** Does work that opens one connection of its own. */
  readonly withRoom: <T>(work: () => Promise<T>) => Promise<T>
  readonly calls: Calls
}

/**
 * Checks names against those that the application has defined, and runs operations, a few at a time, each in a transaction. The
 * first one checks the schema.
 */
export class Operations {
  readonly #known: KnownNames
  readonly #options: OperationsOptions
  /** Who acts; null: the login, unless a call names somebody. */
  readonly #actor: string | null
  /** A web page with many viewers must not use up the server's connections. */
  readonly #gate: Gate
  #schemaFits = false

  constructor(
    known: KnownNames,
    options: OperationsOptions,
    actor: string | null = null,
    gate = new Gate(CONNECTIONS),
  ) {
    this.#known = known
    this.#options = options
    this.#actor = actor
    this.#gate = gate
  }

  /** The same operations, noted under a name. */
  by(name: string): Operations {
    return new Operations(this.#known, this.#options, name, this.#gate)
  }

  /** The name of a queue that may be operated. @throws SluiceError QUEUE_NAME_INVALID, QUEUE_UNKNOWN */
  readonly queue = (name: unknown): string => checkOperatedQueue(name, this.#known)

  /** The same; null: all queues. */
  readonly queueOrNull = (name: unknown): string | null => (name === undefined ? null : this.queue(name))

  /** The name of a stream. @throws SluiceError STREAM_NAME_INVALID, STREAM_UNKNOWN */
  readonly stream = (name: unknown): string => checkStreamName(name, this.#known.streams)

  /** The same; null: all streams. */
  readonly streamOrNull = (name: unknown): string | null => (name === undefined ? null : this.stream(name))

  /**
   * Reads a page by an index.
   *
   * @throws SluiceError SCHEMA_MISSING, SCHEMA_TOO_OLD, SCHEMA_TOO_NEW, SERVER_TOO_OLD, PRIVILEGE_MISSING, TABLE_LOCKED,
   * UNREACHABLE, STOPPED
   */
  read<T>(work: (execute: Execute) => Promise<T>): Promise<T> {
    return this.#read(work, PLAN_BY_INDEX)
  }

  /** Reads and counts everything. @throws SluiceError as {@link read} */
  count<T>(work: (execute: Execute) => Promise<T>): Promise<T> {
    return this.#read(work, PLAN_FOR_VALUES)
  }

  /**
   * For acts of an operator in an incident.
   *
   * @param tx the caller's transaction. Default: one of its own, committed when this resolves.
   * @throws SluiceError as {@link read}, and COMMIT_FAILED; with `tx` EXECUTOR_UNKNOWN, NOT_IN_TRANSACTION
   */
  change<T>(work: (execute: Execute) => Promise<T>, tx?: unknown): Promise<T> {
    return this.#change(work, tx, 'sluice_operator')
  }

  /** For changes of content or settings, and removals that cannot be undone. @param tx as {@link change} @throws SluiceError as {@link change} */
  administer<T>(work: (execute: Execute) => Promise<T>, tx?: unknown): Promise<T> {
    return this.#change(work, tx, 'sluice_admin')
  }

  /** A step of maintenance, in a transaction of its own. @throws SluiceError as {@link read}, and COMMIT_FAILED */
  maintain<T>(work: (execute: Execute) => Promise<T>): Promise<T> {
    return this.#own(work, PLAN_FOR_VALUES, READ_MS, 'sluice_operator')
  }

  /** Statements outside of transactions, on a connection of their own. @throws SluiceError as {@link read} */
  inSession<T>(work: (execute: Execute, shared: boolean) => Promise<T>): Promise<T> {
    return this.#options.calls.run(async () => {
      const { inKnownSession } = await import('../connection/in-session.ts')
      return this.#options.withRoom(() => inKnownSession(this.#options.direct, work))
    })
  }

  #read<T>(work: (execute: Execute) => Promise<T>, plan: Statement): Promise<T> {
    return this.#options.calls.run(async () => {
      const bounds: Bounds = { answerMs: READ_MS, lockMs: READ_LOCK_MS, role: 'sluice_reader' }
      try {
        return await this.#inTurn(work, plan, bounds)
      } catch (error) {
        if (!hasSqlState(error, LOCK_NOT_AVAILABLE)) throw error
        throw await tableLocked((look) => this.#inTurn(look, plan, bounds), error)
      }
    })
  }

  async #change<T>(work: (execute: Execute) => Promise<T>, tx: unknown, role: Role): Promise<T> {
    const actor = this.#actor
    if (tx === undefined || tx === ownTransaction) {
      const named = actor === null ? work : (execute: Execute) => ownActionsBy(execute, actor, work)
      return this.#own(named, PLAN_FOR_VALUES, CHANGE_MS, role)
    }
    const named = actor === null ? work : (execute: Execute) => actionsBy(execute, actor, work)
    return this.#run(await executorOf(tx), named, role)
  }

  #own<T>(work: (execute: Execute) => Promise<T>, plan: Statement, answerMs: number, role: Role): Promise<T> {
    return this.#options.calls.run(() => this.#inTurn(work, plan, { answerMs, lockMs: undefined, role }))
  }

  async #inTurn<T>(
    work: (execute: Execute) => Promise<T>,
    plan: Statement,
    { answerMs, lockMs, role }: Bounds,
  ): Promise<T> {
    const leave = await this.#gate.enter()
    try {
      return await this.#options.host(
        async (execute) => {
          const planned = execute(plan, [])
          const [result] = await Promise.all([this.#run(execute, work, role), planned])
          return result
        },
        answerMs,
        lockMs,
      )
    } finally {
      leave()
    }
  }

  async #run<T>(execute: Execute, work: (execute: Execute) => Promise<T>, role: Role): Promise<T> {
    try {
      if (!this.#schemaFits) await checkSchema(execute)
      this.#schemaFits = true
      return await work(execute)
    } catch (error) {
      throw hasSqlState(error, INSUFFICIENT_PRIVILEGE) ? privilegeMissing(role, error) : orLimitRefused(error)
    }
  }
}

type Role = Parameters<typeof privilegeMissing>[0]

interface Bounds {
  readonly answerMs: number
  /** Undefined: half of that. */
  readonly lockMs: number | undefined
  readonly role: Role
}

const CONNECTIONS = 4
const READ_MS = 60_000
/** Whoever reads in an incident must not wait for the lock that is its reason. */
const READ_LOCK_MS = 2_000
const CHANGE_MS = 300_000
