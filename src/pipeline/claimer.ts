import type { Control } from '../connection/control.ts'
import { type Claim, type ClaimedRow, claim } from '../table/claim.ts'
import { claimApart } from '../table/claim-apart.ts'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  type OrderedClaim,
  WHOLE_QUEUE_SLOT,
} from '../table/claim-ordered.ts'
import { ensureSlots, type Lanes, lookOver } from '../table/lanes.ts'
import type { BatchConnection } from './batch-connection.ts'
import { Floors } from './floors.ts'
import { LaneTurns } from './lane-turns.ts'
import { type Lane, type Look, mayHaveMore, type SentClaim } from './look.ts'
import { Spread } from './spread.ts'
import { SweepClock } from './sweep-clock.ts'

export interface ClaimerOptions {
  readonly queue: string
  readonly batchSize: number
  /** How many batches may be in flight. */
  readonly concurrency: number
  /** Messages without a key are one sequence. */
  readonly ordered: boolean
  readonly control: Control
}

const ALL_LANES: readonly Lane[] = ['slots', 'unkeyed']

/** What a sweep costs that walks nothing: three statements, their messages and their answers. */
const LEAST_SWEEP_MS = 1

/**
 * Claims batches of one queue for one process, with floors. Now and then, and before it says that there is nothing, it
 * sweeps: looks over the queue, and claims from the bottom. While it is busy a sweep costs no round trip: the look goes
 * behind a claim, and the next claim is the one from the bottom. Messages with and without ordering keys take turns.
 */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #floors: Floors
  readonly #sweep = new SweepClock()
  readonly #spread: Spread
  readonly #turns = new LaneTurns()
  readonly #knownSlots = new Set<number>()
  readonly #knownConnections = new WeakSet<object>()
  /** Without it the first claims would take the default priority before those that go first. */
  #firstLook: Promise<Lanes> | undefined
  #hasLooked = false
  /** Whose next claim is part of a sweep. */
  readonly #fromBottom = new Set<Lane>()
  /** A look behind a claim that is not over. */
  #lookingOver: { readonly connection: BatchConnection; readonly lanes: Promise<Lanes> } | undefined
  #most: number
  #clock = { nowUs: 0, atMs: 0 }

  constructor(options: ClaimerOptions, random: () => number = Math.random) {
    this.#options = options
    this.#most = options.batchSize
    this.#floors = new Floors(undefined, Math.floor(random() * WHOLE_QUEUE_SLOT))
    this.#spread = new Spread(options.concurrency, options.batchSize, random)
  }

  /**
   * After a batch of which only a part could be handled, claims take one message, then two, then four, up to a batch: to
   * lock a thousand rows for the sake of one would take longer than to handle it.
   */
  narrow(): void {
    this.#most = 1
  }

  /** A batch could be handled as a whole. */
  widen(): void {
    this.#most = Math.min(this.#most * 2, this.#options.batchSize)
  }

  /** Sends a claim in the transaction that has just been begun. */
  send(connection: BatchConnection): SentClaim {
    this.#meet(connection)
    const sent = this.#hasLooked ? this.#sendAtOnce(connection) : this.#sendBehindLook(connection)
    // Awaited later, perhaps after an error that ends the connection's use.
    for (const answer of [sent.first, sent.lanes]) answer?.catch(() => undefined)
    return sent
  }

  #sendAtOnce(connection: BatchConnection): SentClaim {
    const first = this.#claimNext(connection)
    const isDue = this.#lookingOver === undefined && this.#sweep.waitMs() === 0
    return { first, lanes: isDue ? this.#lookBehind(connection, first) : undefined }
  }

  /** Once per claimer: a round trip for the priorities and slots that there are, and then the claim. */
  #sendBehindLook(connection: BatchConnection): SentClaim {
    const answered = Promise.withResolvers<void>()
    if (this.#firstLook === undefined) {
      const lanes = this.#lookOver(connection, undefined, answered.resolve)
      this.#firstLook = lanes
      this.#lookingOver = { connection, lanes }
      lanes
        .then(
          () => answered.resolve(),
          () => {
            this.#firstLook = undefined
          },
        )
        .finally(() => {
          this.#lookingOver = undefined
        })
      void answered.promise.then(() => {
        this.#hasLooked = true
      })
    }
    const lookedOver = Promise.race([answered.promise, this.#firstLook])
    return { first: lookedOver.then(() => this.#claimNext(connection)), lanes: this.#firstLook }
  }

  #claimNext(connection: BatchConnection): Promise<Look> {
    const [lane = 'unkeyed'] = this.#lanes()
    return this.#claim(connection, lane, this.#fromBottom.delete(lane))
  }

  /** The answer to a sent claim; where that took nothing, the rest of the look. */
  async take(connection: BatchConnection, sent: SentClaim): Promise<Look> {
    const first = await sent.first
    // The look that was sent behind it is not worth waiting for.
    if (first.rows.length > 0) return first
    let lanes = await (sent.lanes ?? this.#lookOn(connection))
    let { cut } = first
    if (lanes === undefined) {
      const others = this.#lanes().filter((lane) => lane !== first.lane)
      const other = await this.#firstOf(connection, others, false)
      if (other !== undefined && other.rows.length > 0) return other
      cut ||= other?.cut ?? false
      const waitMs = this.#missedSlots ? 0 : this.#sweep.idleWaitMs()
      if (waitMs > 0) return { ...first, cut, nextDueMs: waitMs }
      lanes = await this.#lookOver(connection, undefined)
    }
    if (!lanes.ready) return { ...first, cut, nextDueMs: lanes.nextDueMs }
    const swept = await this.#sweepFrom(connection)
    if (swept !== undefined && swept.rows.length > 0) return swept
    // Usually somebody else has them. But without its row a slot is never claimed, and rows can be lost.
    this.#knownSlots.clear()
    return { ...first, cut: cut || swept?.cut === true, nextDueMs: lanes.nextDueMs }
  }

  /** A sent claim whose answer nobody takes: what it locked is free again. */
  unsend(sent: SentClaim | undefined): void {
    sent?.first.then(({ rows }) => this.release(rows)).catch(() => undefined)
  }

  /** Rows that were claimed and not settled: they are free again. */
  release(rows: readonly ClaimedRow[]): void {
    if (rows.length === 0) return
    this.#floors.lower(rows)
  }

  /**
   * What a process knows of the table holds for a server that forgets nothing. Behind a new connection there can be one
   * that has lost its last commits: an asynchronous standby that took over, or, where commits do not wait for the
   * disk, one that has recovered. Messages below a slot's floor are then there again, and rows of slots may be gone.
   */
  #meet({ client }: BatchConnection): void {
    if (this.#knownConnections.has(client)) return
    this.#knownConnections.add(client)
    this.#floors.restart()
    this.#knownSlots.clear()
  }

  /** A look over the queue behind a claim; when it is answered, the next claims are from the bottom. */
  #lookBehind(connection: BatchConnection, claimed: Promise<Look>): Promise<Lanes> {
    const look = async () => {
      try {
        const lanes = await this.#lookOver(connection, claimed)
        if ((await claimed).rows.length > 0) for (const lane of ALL_LANES) this.#fromBottom.add(lane)
        return lanes
      } finally {
        this.#lookingOver = undefined
      }
    }
    const lanes = look()
    this.#lookingOver = { connection, lanes }
    return lanes
  }

  /**
   * The look that went behind an earlier claim on this connection. Its answer is here already: what it may still wait
   * for are the rows of slots that it has found, and until they are there a claim finds nothing in them.
   */
  #lookOn(connection: BatchConnection): Promise<Lanes | undefined> | undefined {
    if (this.#lookingOver?.connection !== connection) return undefined
    return this.#lookingOver.lanes.catch(() => undefined)
  }

  /** A look that has just ended found slots, and the claim that asked for them may have been before their rows. */
  get #missedSlots(): boolean {
    return this.#floors.hasSlots() && this.#fromBottom.has('slots')
  }

  /** `answered` is called when messages without a key can be claimed: they need not wait for rows of slots. */
  async #lookOver(
    connection: BatchConnection,
    behind: Promise<unknown> | undefined,
    answered?: () => void,
  ): Promise<Lanes> {
    const answer = lookOver(connection.execute, this.#options.queue)
    answer.catch(() => undefined)
    await behind
    const started = performance.now()
    const lanes = await answer
    // Behind a claim, the answers come together, and only the server knows what the look took. The claims from the
    // bottom that follow will walk what it has walked.
    this.#sweep.learn(lanes.workers)
    const tookMs = behind === undefined ? performance.now() - started : lanes.tookMs * 2
    this.#sweep.ran(Math.max(tookMs, LEAST_SWEEP_MS))
    const learned = this.#learn(lanes)
    if (lanes.unkeyed && !this.#options.ordered) answered?.()
    await learned
    return lanes
  }

  async #sweepFrom(connection: BatchConnection): Promise<Look | undefined> {
    const started = performance.now()
    this.#fromBottom.clear()
    const look = await this.#firstOf(connection, this.#lanes(), true)
    this.#sweep.ran(performance.now() - started)
    return look
  }

  /** The first claim that takes something, or else one that was cut short, or else any. */
  async #firstOf(connection: BatchConnection, lanes: readonly Lane[], bottom: boolean): Promise<Look | undefined> {
    let found: Look | undefined
    for (const lane of lanes) {
      const look = await this.#claim(connection, lane, bottom)
      if (look.rows.length > 0) return look
      if (!found?.cut) found = look
    }
    return found
  }

  async #learn(lanes: Lanes): Promise<void> {
    const { control, queue, ordered } = this.#options
    this.#floors.learn(lanes.priorities, lanes.slots)
    this.#spread.learn(lanes.workers)
    this.#turns.learn(lanes)
    const needed = ordered ? [...lanes.slots, WHOLE_QUEUE_SLOT] : lanes.slots
    const fresh = needed.filter((slot) => !this.#knownSlots.has(slot))
    if (fresh.length === 0) return
    // Not in the batch's transaction: two processes that make the same row would wait for each other's batches.
    await ensureSlots(control.execute, queue, fresh)
    for (const slot of fresh) this.#knownSlots.add(slot)
  }

  #lanes(): readonly Lane[] {
    return this.#floors.hasSlots() ? this.#turns.next() : ['unkeyed']
  }

  async #claim(connection: BatchConnection, lane: Lane, bottom: boolean): Promise<Look> {
    const most = this.#most
    const { lowered, anyHeld: heldKnown } = this.#floors
    const sentAtMs = performance.now()
    const skipped = bottom || !this.#spread.wide ? 0 : this.#spread.next()
    const taken: Claim & Partial<OrderedClaim> = await (lane === 'slots' || this.#options.ordered
      ? this.#claimOrdered(connection, lane, bottom)
      : this.#claimUnkeyed(connection, bottom, skipped))
    const full = taken.rows.length >= most
    const cut = mayHaveMore(taken, heldKnown)
    if (taken.firstLive === undefined && skipped === 0) this.#floors.claimed(taken.rows, { bottom, full, lowered })
    this.#turns.took(lane, taken.rows.length > 0, cut)
    this.#clock = { nowUs: taken.nowUs, atMs: sentAtMs }
    const { nowUs, transaction, evidence, rows } = taken
    return { lane, nowUs, transaction, sentAtMs, evidence, rows, full, cut, nextDueMs: null }
  }

  #claimUnkeyed({ execute }: BatchConnection, bottom: boolean, skipped: number): Promise<Claim> {
    const { queue } = this.#options
    const floors = this.#floors.priorities(bottom ? 'bottom' : this.#databaseNowUs())
    // A sweep passes by nothing: the number that a row bears can be of several lockers, and then says nothing of any.
    return this.#spread.wide && !bottom
      ? claimApart(execute, queue, floors, this.#most, skipped)
      : claim(execute, queue, floors, this.#most)
  }

  /** The database's clock by the last claim. Too early is harmless: a floor that is too low costs a longer walk. */
  #databaseNowUs(): number {
    return Math.floor(this.#clock.nowUs + (performance.now() - this.#clock.atMs) * 1_000)
  }

  async #claimOrdered(connection: BatchConnection, lane: Lane, bottom: boolean): Promise<OrderedClaim | Claim> {
    const { queue } = this.#options
    const { lowered } = this.#floors
    const taken =
      lane === 'slots'
        ? await this.#claimSlots(connection, bottom)
        : await claimWholeQueue(connection.execute, queue, this.#floors.wholeQueue(bottom), this.#most)
    if (lowered === this.#floors.lowered) this.#floors.observed(taken)
    return taken
  }

  #claimSlots({ execute }: BatchConnection, bottom: boolean): Promise<OrderedClaim> {
    const { queue } = this.#options
    const slots = this.#floors.slots(bottom)
    return this.#floors.anyHeld
      ? claimSlots(execute, queue, slots, this.#most, this.#floors.passed())
      : claimFreeSlots(execute, queue, slots, this.#most)
  }
}
