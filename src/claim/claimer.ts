import type { Control } from '../connection/control.ts'
import type { ClaimedRow } from '../table/claim.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim-ordered.ts'
import { ensureSlots, type Lanes, lookOver } from '../table/lanes.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import { FirstLook } from './first-look.ts'
import { FlooredClaims, type FlooredClaimsOptions } from './floored-claims.ts'
import { LaneTurns } from './lane-turns.ts'
import { endsTransaction, type Lane, type Look, type SentClaim } from './look.ts'
import { SweepClock } from './sweep-clock.ts'

export interface ClaimerOptions extends FlooredClaimsOptions {
  readonly control: Pick<Control, 'execute'>
}

const ALL_LANES: readonly Lane[] = ['slots', 'unkeyed']
const ONLY_UNKEYED: readonly Lane[] = ['unkeyed']

/** What a sweep costs that walks nothing: three statements, their messages and their answers. */
const LEAST_SWEEP_MS = 1

/**
 * Claims batches of one queue for one process, with floors. Now and then, and before it says that there is nothing, it
 * sweeps: looks over the queue, and claims from the bottom. While it is busy a sweep costs no round trip: the look goes
 * behind a claim, and the next claim is the one from the bottom. Messages with and without ordering keys take turns.
 */
export class Claimer {
  readonly #options: ClaimerOptions
  readonly #claims: FlooredClaims
  readonly #sweep = new SweepClock()
  readonly #turns = new LaneTurns()
  readonly #firstLook = new FirstLook()
  readonly #knownSlots = new Set<number>()
  /** A look has found slots whose rows could not be made, or not yet. */
  #lacksRows = false
  /** Whose next claim is part of a sweep. */
  readonly #fromBottom = new Set<Lane>()
  /** A look that is not over. */
  #lookingOver: { readonly connection: BatchConnection; readonly lanes: Promise<Lanes> } | undefined

  constructor(options: ClaimerOptions, random: () => number = Math.random) {
    this.#options = options
    this.#claims = new FlooredClaims(options, random, () => this.#knownSlots.clear())
  }

  /** A batch could be handled only in part: the next ones are small. */
  narrow(): void {
    this.#claims.narrow()
  }

  /** A batch could be handled as a whole. */
  widen(): void {
    this.#claims.widen()
  }

  /** Sends a claim in the transaction that has just been begun. */
  send(connection: BatchConnection): SentClaim {
    this.#claims.meet(connection)
    const sent = this.#firstLook.over ? this.#sendAtOnce(connection) : this.#sendBehindLook(connection)
    // Awaited later, perhaps after an error that ends the connection's use.
    for (const answer of [sent.first, sent.lanes]) answer?.catch(() => undefined)
    return sent
  }

  #sendAtOnce(connection: BatchConnection): SentClaim {
    const first = this.#claimNext(connection)
    const isDue = this.#lookingOver === undefined && this.#sweep.waitMs() === 0
    return { first, lanes: isDue ? this.#looking(connection, this.#lookBehind(connection, first)) : undefined }
  }

  /** Once per claimer: a round trip for the priorities and slots that there are, and then the claim. */
  #sendBehindLook(connection: BatchConnection): SentClaim {
    const { answered, lanes } = this.#firstLook.begin((enough) =>
      this.#looking(connection, this.#lookOver(connection, undefined, enough)),
    )
    return { first: answered.then(() => this.#claimNext(connection)), lanes }
  }

  #claimNext(connection: BatchConnection): Promise<Look> {
    const [lane = 'unkeyed'] = this.#hasSlots ? this.#turns.next() : ONLY_UNKEYED
    return this.#claim(connection, lane, this.#fromBottom.delete(lane))
  }

  /** The answer to a sent claim; where that took nothing, the rest of the look. */
  async take(connection: BatchConnection, sent: SentClaim): Promise<Look> {
    const first = await sent.first
    // The look that was sent behind it is not worth waiting for.
    if (endsTransaction(first)) return first
    let lanes = await (sent.lanes ?? this.#lookOn(connection))
    let { cut } = first
    if (lanes === undefined) {
      const others = this.#lanes().filter((lane) => lane !== first.lane)
      const other = await this.#firstOf(connection, others, false)
      if (other !== undefined && endsTransaction(other)) return other
      cut ||= other?.cut ?? false
      const waitMs = this.#missedSlots ? 0 : this.#sweep.idleWaitMs()
      if (waitMs > 0) return { ...first, cut, nextDueMs: waitMs }
      lanes = await this.#lookOver(connection, undefined)
    }
    if (!lanes.ready) return { ...first, cut, nextDueMs: lanes.nextDueMs }
    const swept = await this.#sweepFrom(connection)
    if (swept !== undefined && endsTransaction(swept)) return swept
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
    this.#claims.release(rows)
  }

  /** A look over the queue behind a claim; when it is answered, the next claims are from the bottom. */
  async #lookBehind(connection: BatchConnection, claimed: Promise<Look>): Promise<Lanes> {
    const lanes = await this.#lookOver(connection, claimed)
    if ((await claimed).rows.length > 0) for (const lane of ALL_LANES) this.#fromBottom.add(lane)
    return lanes
  }

  /** While it lasts, no other one begins. */
  #looking(connection: BatchConnection, lanes: Promise<Lanes>): Promise<Lanes> {
    const over = () => {
      this.#lookingOver = undefined
    }
    this.#lookingOver = { connection, lanes }
    lanes.then(over, over)
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

  /** A look has found slots, and the claim that asked for them may have been before their rows. */
  get #missedSlots(): boolean {
    return this.#lacksRows || (this.#hasSlots && this.#fromBottom.has('slots'))
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
      if (endsTransaction(look)) return look
      if (!found?.cut) found = look
    }
    return found
  }

  async #learn(lanes: Lanes): Promise<void> {
    const { control, queue, ordered } = this.#options
    this.#claims.floors.learn(lanes.priorities, lanes.slots)
    this.#claims.spread.learn(lanes.workers)
    this.#turns.learn(lanes)
    const needed = ordered ? [...lanes.slots, WHOLE_QUEUE_SLOT] : lanes.slots
    const fresh = needed.filter((slot) => !this.#knownSlots.has(slot))
    if (fresh.length === 0) return
    // Not in the batch's transaction: two processes that make the same row would wait for each other's batches.
    this.#lacksRows = true
    await ensureSlots(control.execute, queue, fresh)
    this.#lacksRows = false
    for (const slot of fresh) this.#knownSlots.add(slot)
  }

  get #hasSlots(): boolean {
    return this.#claims.floors.hasSlots()
  }

  /** In the order of the claim that has been sent. */
  #lanes(): readonly Lane[] {
    return this.#hasSlots ? this.#turns.order() : ONLY_UNKEYED
  }

  async #claim(connection: BatchConnection, lane: Lane, bottom: boolean): Promise<Look> {
    const look = await this.#claims.claim(connection, lane, bottom)
    this.#turns.took(lane, look.rows.length > 0, look.cut)
    return look
  }
}
