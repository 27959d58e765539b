import type { Control } from '../connection/control.ts'
import { type Claim, type ClaimedRow, claim } from '../table/claim.ts'
import { claimSlots, claimWholeQueue, type OrderedClaim, WHOLE_QUEUE_SLOT } from '../table/claim-ordered.ts'
import { ensureSlots, type Lanes, lookOver } from '../table/lanes.ts'
import type { BatchConnection } from './batch-connection.ts'
import { Floors } from './floors.ts'
import { SweepClock } from './sweep-clock.ts'

export interface ClaimerOptions {
  readonly queue: string
  readonly batchSize: number
  /** Messages without a key are one sequence. */
  readonly ordered: boolean
  readonly control: Control
}

/** What a look at the queue gave: rows, or when to look again. */
export interface Look {
  readonly nowUs: number
  readonly rows: readonly ClaimedRow[]
  /** As many as were asked for: there may be more. */
  readonly full: boolean
  /** Milliseconds until something may be due; null: nothing is waiting. */
  readonly nextDueMs: number | null
}

/** A claim that has been sent; its answer may be awaited later. */
export interface SentClaim {
  readonly answer: Promise<Look | undefined>
}

type Lane = 'slots' | 'unkeyed'

/**
 * Claims batches of one queue for one process: with floors while it is busy, from the bottom in a sweep, which runs
 * before the claimer says that there is nothing, and now and then in between. Messages with and without ordering keys
 * take turns.
 */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #floors = new Floors()
  readonly #sweep = new SweepClock()
  readonly #knownSlots = new Set<number>()
  #slotsFirst = false

  constructor(options: ClaimerOptions) {
    this.#options = options
  }

  /** Sends BEGIN and a claim behind whatever the connection is doing. */
  send(connection: BatchConnection): SentClaim {
    connection.begin()
    if (this.#sweep.waitMs() === 0) return { answer: Promise.resolve(undefined) }
    const [first = 'unkeyed'] = this.#lanes()
    const answer = this.#claim(connection, first, false)
    // Awaited later, perhaps after an error that ends the connection's use.
    answer.catch(() => undefined)
    return { answer }
  }

  /** The answer to a sent claim; where that took nothing, the rest of the look. */
  async take(connection: BatchConnection, sent: SentClaim): Promise<Look> {
    const first = await sent.answer
    if (first !== undefined && first.rows.length > 0) return first
    if (first !== undefined) {
      for (const lane of this.#lanes().slice(1)) {
        const look = await this.#claim(connection, lane, false)
        if (look.rows.length > 0) return look
      }
    }
    const waitMs = this.#sweep.waitMs()
    if (waitMs > 0) return { nowUs: first?.nowUs ?? 0, rows: [], full: false, nextDueMs: waitMs }
    return this.#sweepFrom(connection)
  }

  /** Rows that were claimed and not settled: they are free again. */
  release(rows: readonly ClaimedRow[]): void {
    if (rows.length === 0) return
    this.#floors.lower(rows)
  }

  async #sweepFrom(connection: BatchConnection): Promise<Look> {
    const started = performance.now()
    try {
      const lanes = await lookOver(connection.execute, this.#options.queue)
      await this.#learn(lanes)
      if (lanes.ready) {
        for (const lane of this.#lanes()) {
          const look = await this.#claim(connection, lane, true)
          if (look.rows.length > 0) return look
        }
      }
      return { nowUs: 0, rows: [], full: false, nextDueMs: lanes.nextDueMs }
    } finally {
      this.#sweep.ran(performance.now() - started)
    }
  }

  async #learn(lanes: Lanes): Promise<void> {
    const { control, queue, ordered } = this.#options
    this.#floors.learn(lanes.priorities, lanes.slots)
    const needed = ordered ? [...lanes.slots, WHOLE_QUEUE_SLOT] : lanes.slots
    const fresh = needed.filter((slot) => !this.#knownSlots.has(slot))
    if (fresh.length === 0) return
    // Not in the batch's transaction: two processes that make the same row would wait for each other's batches.
    await ensureSlots(control.execute, queue, fresh)
    for (const slot of fresh) this.#knownSlots.add(slot)
  }

  /** Which kinds of messages to ask for, the one whose turn it is first. */
  #lanes(): readonly Lane[] {
    if (!this.#floors.hasSlots()) return ['unkeyed']
    return this.#slotsFirst ? ['slots', 'unkeyed'] : ['unkeyed', 'slots']
  }

  async #claim(connection: BatchConnection, lane: Lane, bottom: boolean): Promise<Look> {
    const { batchSize } = this.#options
    const lowered = this.#floors.lowered
    const taken = await (lane === 'slots' || this.#options.ordered
      ? this.#claimOrdered(connection, lane, bottom)
      : claim(connection.execute, this.#options.queue, this.#floors.priorities(bottom), batchSize))
    const full = taken.rows.length >= batchSize
    if (!('firstLive' in taken)) this.#floors.claimed(taken.rows, { bottom, full, lowered })
    if (taken.rows.length > 0) this.#slotsFirst = lane === 'unkeyed'
    return { nowUs: taken.nowUs, rows: taken.rows, full, nextDueMs: null }
  }

  async #claimOrdered(connection: BatchConnection, lane: Lane, bottom: boolean): Promise<OrderedClaim | Claim> {
    const { queue, batchSize } = this.#options
    const taken =
      lane === 'slots'
        ? await claimSlots(connection.execute, queue, this.#floors.slots(bottom), batchSize)
        : await claimWholeQueue(connection.execute, queue, this.#floors.wholeQueue(bottom), batchSize)
    this.#floors.observed(taken)
    return taken
  }
}
