import { hasSqlState, LOCK_NOT_AVAILABLE } from '../../../basics/errors/sql-state.ts'
import { startTimer } from '../../../basics/time/start-timer.ts'
import type { LeasedPlan } from '../../../plan/options.ts'
import { type RowsRuntime, type SentDecisions, sendDecisions } from '../../../settle/send-decisions.ts'
import { renewPermitted } from '../../../table/limit/limits.ts'
import { forgetEvidence } from '../../../table/settle/around.ts'
import type { LeasedId } from '../../../table/settle/fence.ts'
import { readLeased, renewLeases, unlockedLeased } from '../../../table/settle/leases.ts'
import type { Execute } from '../../../table/statement.ts'
import { allAnswered } from '../../../transaction/all-answered.ts'
import { BatchConnection } from '../../../transaction/batch-connection.ts'
import { WITHOUT_DISK } from '../../../transaction/transaction-settings.ts'
import type { Runtime } from '../../runtime.ts'
import type { LeasedOutcome } from './leased-outcome.ts'
import { leasedRows } from './leased-rows.ts'

/** What became of a write. What is in neither set was not found under its lease. */
export interface Written {
  readonly ids: ReadonlySet<string>
  /** Still ours, and locked or moved by another session: another try will do. */
  readonly locked: ReadonlySet<string>
  /** Still ours, and locked by the write, which has changed nothing of it all the same. */
  readonly untouched: ReadonlySet<string>
}

/** Something has to be tried again. */
export interface Retry {
  readonly because: unknown
}

/** A lease, and for how long a renewal makes it last. */
interface TimedLease extends LeasedId {
  readonly leaseMs: number
}

interface Work {
  readonly leases: readonly TimedLease[]
  /** COMMIT waits for the disk. */
  readonly durable: boolean
  readonly send: (execute: Execute, may: (id: string) => boolean) => SentDecisions
  /** Sends what depends on which of them the statements have found. Left out where nothing does. */
  readonly behind?: ((execute: Execute, ids: ReadonlySet<string>) => Promise<void>) | undefined
}

type WriterRuntime = RowsRuntime & Pick<Runtime, 'connections' | 'settings'>

/** Sends settlements and renewals, each in a transaction of its own. */
export class LeaseWriter {
  readonly #runtime: WriterRuntime
  readonly #plan: Pick<LeasedPlan, 'queue' | 'leaseMs'>
  #connection: BatchConnection | undefined
  readonly #cutting = new AbortController()

  constructor(runtime: WriterRuntime, plan: Pick<LeasedPlan, 'queue' | 'leaseMs'>) {
    this.#runtime = runtime
    this.#plan = plan
  }

  get isCut(): boolean {
    return this.#cutting.signal.aborted
  }

  /** Breaks off what is under way. Nothing is sent after it. */
  cut(): void {
    this.#cutting.abort()
    this.#connection?.break('The pipeline has stopped')
  }

  /** @param skipLocked leaves out what others have locked, and does not wait for it first: it takes a round trip more */
  renew(leases: readonly TimedLease[], skipLocked: boolean): Promise<Written> {
    const { queue, leaseMs } = this.#plan
    const version = this.#runtime.serverVersion()
    const send: Work['send'] = (execute, may) => {
      const allowed = leases.filter(({ id }) => may(id))
      const { concurrency, tenantConcurrency } = this.#runtime.settings.of(queue)
      const isLimited = concurrency !== null || tenantConcurrency !== null
      const renewed = [
        isLimited
          ? renewPermitted(execute, queue, allowed, leaseMs)
          : renewLeases(execute, queue, allowed, leaseMs, version),
      ]
      return { written: renewed, all: renewed }
    }
    return this.#skippingLocked({ leases, durable: false, send }, skipLocked)
  }

  /** @param nowUs the database's clock, or a little earlier */
  settle(outcomes: readonly LeasedOutcome[], nowUs: number, skipLocked: boolean): Promise<Written> {
    const { queue } = this.#plan
    const leases = outcomes.map(({ leased }) => leased)
    const rowsIn = leasedRows(this.#runtime, queue, leases, nowUs)
    const send: Work['send'] = (execute, may) => {
      const allowed = outcomes.filter(({ id }) => may(id))
      for (const outcome of allowed) outcome.sent()
      // The handler's own transaction has written the others.
      const toWrite = allowed.filter(({ leased }) => !leased.isCommitted)
      return sendDecisions(
        execute,
        rowsIn,
        toWrite.map(({ decided }) => decided),
      )
    }
    return this.#skippingLocked({ leases, durable: true, send, behind: forgetting(queue, outcomes) }, skipLocked)
  }

  async #skippingLocked(work: Work, skipLocked: boolean): Promise<Written> {
    if (skipLocked) return this.#write(work, true)
    try {
      return await this.#write(work, false)
    } catch (error) {
      if (!hasSqlState(error, LOCK_NOT_AVAILABLE)) throw error
      return this.#write(work, true)
    }
  }

  /** Without a look for locks or evidence, all of it leaves in one packet: BEGIN, the statements and COMMIT. */
  async #write({ leases, durable, send, behind }: Work, skipLocked: boolean): Promise<Written> {
    const connection = await BatchConnection.acquire(this.#runtime.connections.settlements, this.#cutting.signal)
    this.#connection = connection
    // It may have come between the connection and this line.
    if (this.isCut) connection.break('The pipeline has stopped')
    const shortestMs = leases.reduce((least, { leaseMs }) => Math.min(least, leaseMs), this.#plan.leaseMs)
    const ms = Math.min(Math.max(shortestMs / 4, LEAST_ANSWER_MS), MOST_ANSWER_MS)
    const limit = startTimer(() => connection.break(`No answer within ${ms} ms`), ms)
    const begin = () => {
      connection.begin({ ms, serverVersion: this.#runtime.serverVersion() }, LOCK_MS)
      if (!durable) connection.sendSoon(WITHOUT_DISK)
    }
    try {
      if (skipLocked) begin()
      const { unlocked, locked } = skipLocked ? await this.#lockFirst(connection.execute, leases) : ANY
      const [sent, committed] = connection.together(() => {
        if (!skipLocked) begin()
        const answers = send(connection.execute, (id) => unlocked?.has(id) ?? true)
        return [answers, behind === undefined ? connection.commit() : commitAfter(connection, answers, behind)]
      })
      const { written, all } = sent
      // The statement's error first: it is why COMMIT did not commit.
      await allAnswered([...all, committed])
      const ids = new Set((await Promise.all(written)).flat())
      const missing = leases.filter(({ id }) => !ids.has(id) && !locked.has(id))
      const still = missing.length === 0 ? [] : await this.#stillLeased(connection, begin, missing)
      if (skipLocked) return { ids, locked, untouched: new Set(still) }
      return { ids, locked: new Set([...locked, ...still]), untouched: NONE }
    } catch (error) {
      await connection.abandon()
      throw error
    } finally {
      clearTimeout(limit)
      this.#connection = undefined
      connection.release()
    }
  }

  /**
   * Those that are there all the same. Before version 17 their rows may have been moved under the statement that looked for
   * them; where they were locked before it, and in later versions, a trigger for example has swallowed what it did. In a
   * transaction, because outside one the limits and the planner settings are those of the database: by a shorter limit it
   * failed for ever, behind a COMMIT that held.
   */
  async #stillLeased(
    connection: BatchConnection,
    begin: () => void,
    missing: readonly LeasedId[],
  ): Promise<readonly string[]> {
    const version = this.#runtime.serverVersion()
    const [still, ended] = connection.together(() => {
      begin()
      return [readLeased(connection.execute, this.#plan.queue, missing, version), connection.commit()]
    })
    await allAnswered([still, ended])
    return still
  }

  async #lockFirst(execute: Execute, leases: readonly LeasedId[]) {
    const version = this.#runtime.serverVersion()
    const unlocked = new Set(await unlockedLeased(execute, this.#plan.queue, leases, version))
    const ours = await readLeased(execute, this.#plan.queue, leases, version)
    return { unlocked, locked: new Set(ours.filter((id) => !unlocked.has(id))) }
  }
}

/**
 * Forgets the evidence about messages in the transaction that settles them: crashes that `attempt` has counted would count
 * again. Only about those that have been settled, so their answers come first. Undefined if there is none, as for
 * nearly all.
 */
function forgetting(queue: string, outcomes: readonly LeasedOutcome[]): Work['behind'] {
  const suspects = outcomes.filter(({ isBack, leased }) => !isBack && leased.evidence !== undefined)
  if (suspects.length === 0) return undefined
  return async (execute, ids) => {
    // What its handler's own transaction has removed is found by no statement.
    const settled = suspects.filter(({ id, leased }) => ids.has(id) || leased.isCommitted)
    const forgotten = settled.map(({ id }) => id)
    if (forgotten.length > 0) await forgetEvidence(execute, queue, forgotten)
  }
}

/** It takes a round trip more. */
async function commitAfter(
  connection: BatchConnection,
  { written, all }: SentDecisions,
  behind: NonNullable<Work['behind']>,
): Promise<void> {
  await allAnswered(all)
  const ids = new Set((await Promise.all(written)).flat())
  await allAnswered(connection.together(() => [behind(connection.execute, ids), connection.commit()]))
}

const NONE: ReadonlySet<string> = new Set()

const ANY = { unlocked: undefined, locked: new Set<string>() } as const

/**
 * What the server may take for it: of a lease, a quarter. The first renewal is sent when half of the time is over, so
 * if its connection has become half-open, another one comes in time.
 */
const MOST_ANSWER_MS = 10_000
const LEAST_ANSWER_MS = 2_000

/** A row is locked for longer only by a transaction that handles it, or by hand. */
const LOCK_MS = 500
