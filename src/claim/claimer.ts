import type { Control } from '../connection/control.ts'
import type { ClaimedRow } from '../table/claim/claim.ts'
import { claimLocked } from '../table/claim/claim-locked.ts'
import { WHOLE_QUEUE_SLOT } from '../table/claim/claim-ordered.ts'
import type { Lease } from '../table/claim/lease.ts'
import { ensureSlots, type QueueScan, scanQueue } from '../table/claim/queue-scan.ts'
import type { Execute } from '../table/statement.ts'
import type { BatchConnection } from '../transaction/batch-connection.ts'
import {
  type ClaimAnswer,
  type ClaimRequest,
  endsTransaction,
  type MessageKind,
  type SentClaim,
} from './claim-answer.ts'
import { FirstScan } from './first-scan.ts'
import { type ClaimedQueue, FlooredClaims } from './floored-claims.ts'
import { SweepClock } from './sweep-clock.ts'
import { Turns } from './turns.ts'

/** Sent behind each claim, in its packet: an error undoes the claim. */
export type ClaimCheck = (execute: Execute) => Promise<void>

const BOTH_KINDS: readonly MessageKind[] = ['keyed', 'unkeyed']
const ONLY_UNKEYED: readonly MessageKind[] = ['unkeyed']

/** The cost of a sweep that walks nothing: three statements, their messages and their answers. */
const LEAST_SWEEP_MS = 1

/**
 * Claims batches of one queue for one process, with floors. Now and then, and before it says that there is nothing, it
 * sweeps: scans the queue, and claims from the bottom. While it is busy a sweep costs no round trip: the scan goes
 * behind a claim, and the next claim is the one from the bottom. Messages with and without ordering keys take turns.
 */
export class Claimer {
  readonly #plan: ClaimedQueue
  readonly #control: Pick<Control, 'execute'>
  readonly #check: ClaimCheck | undefined
  readonly #claims: FlooredClaims
  readonly #sweep = new SweepClock()
  readonly #turns = new Turns()
  readonly #firstScan = new FirstScan()
  readonly #knownSlots = new Set<number>()
  /** A scan has found slots whose rows could not be made, or not yet. */
  #lacksRows = false
  /** Kinds whose next claim starts at the bottom, as part of a sweep. */
  readonly #fromBottom = new Set<MessageKind>()
  /** A scan that is not over. */
  #scanning: { readonly connection: BatchConnection; readonly scan: Promise<QueueScan> } | undefined

  constructor(
    plan: ClaimedQueue,
    control: Pick<Control, 'execute'>,
    check?: ClaimCheck,
    random: () => number = Math.random,
  ) {
    this.#plan = plan
    this.#control = control
    this.#check = check
    this.#claims = new FlooredClaims(plan, random, () => this.#knownSlots.clear())
  }

  /** A batch could be handled only in part: the next ones are small. */
  narrow(): void {
    this.#claims.narrow()
  }

  /** A batch could be handled as a whole. */
  widen(): void {
    this.#claims.widen()
  }

  /** Sets how many batches may be in flight from now on. */
  resize(concurrency: number): void {
    this.#claims.spread.resize(concurrency)
  }

  /** Sends a claim in the transaction that has just been begun. */
  send(connection: BatchConnection, terms: ClaimRequest = {}): SentClaim {
    this.#claims.meet(connection)
    const sent = this.#send(connection, terms)
    // Awaited later, perhaps after an error that ends the connection's use.
    for (const answer of [sent.first, sent.scan]) answer?.catch(() => undefined)
    return sent
  }

  #send(connection: BatchConnection, terms: ClaimRequest): SentClaim {
    if (terms.locked !== undefined)
      return { terms, first: this.#claimLocked(connection, terms.locked, terms.lease), atOnce: true, scan: undefined }
    return this.#firstScan.over ? this.#sendAtOnce(connection, terms) : this.#sendBehindScan(connection, terms)
  }

  #sendAtOnce(connection: BatchConnection, terms: ClaimRequest): SentClaim {
    const first = this.#claimNext(connection, terms)
    const isDue = this.#scanning === undefined && this.#sweep.waitMs() === 0
    const scan = isDue ? this.#track(connection, this.#scanBehind(connection, first)) : undefined
    return { terms, first, atOnce: true, scan }
  }

  /** Once per claimer: a round trip to learn the priorities and slots, and then the claim. */
  #sendBehindScan(connection: BatchConnection, terms: ClaimRequest): SentClaim {
    const { answered, scan } = this.#firstScan.begin((enough) =>
      this.#track(connection, this.#scanQueue(connection, undefined, enough)),
    )
    return { terms, first: answered.then(() => this.#claimNext(connection, terms)), atOnce: false, scan }
  }

  #claimNext(connection: BatchConnection, terms: ClaimRequest): Promise<ClaimAnswer> {
    const [kind = 'unkeyed'] = terms.kind ? [terms.kind] : this.#hasSlots ? this.#turns.next() : ONLY_UNKEYED
    return this.#claim(connection, terms, kind, this.#fromBottom.delete(kind))
  }

  /** The answer to a sent claim or, if it took nothing, to the rest of the sweep. */
  async take(connection: BatchConnection, sent: SentClaim): Promise<ClaimAnswer> {
    const { terms } = sent
    const first = await sent.first
    // Do not wait for the scan that was sent behind it.
    if (endsTransaction(first)) return first
    let scan = await (sent.scan ?? this.#scanSent(connection))
    let { partial } = first
    if (scan === undefined) {
      const others = this.#kindsOf(terms).filter((kind) => kind !== first.kind)
      const other = await this.#firstOf(connection, terms, others, false)
      if (other !== undefined && endsTransaction(other)) return other
      partial ||= other?.partial ?? false
      const waitMs = this.#missedSlots ? 0 : this.#sweep.idleWaitMs()
      if (waitMs > 0) return this.#nothing(first, partial, waitMs)
      scan = await this.#scanQueue(connection, undefined)
    }
    if (!scan.ready) return this.#nothing(first, partial, scan.nextDueMs)
    const swept = await this.#sweepFrom(connection, terms)
    if (swept !== undefined && endsTransaction(swept)) return swept
    // Usually others have them. But a slot without its row is never claimed, and rows can be lost.
    this.#knownSlots.clear()
    return this.#nothing(first, partial || swept?.partial === true, scan.nextDueMs)
  }

  #nothing(first: ClaimAnswer, partial: boolean, nextDueMs: number | null): ClaimAnswer {
    const againMs = this.#claims.floors.leftOut.againMs()
    return { ...first, partial, nextDueMs: againMs === null ? nextDueMs : Math.min(againMs, nextDueMs ?? againMs) }
  }

  /** The answer to a sent claim is not taken: its rows are free again. */
  unsend(sent: SentClaim | undefined): void {
    sent?.first.then(({ rows }) => this.release(rows)).catch(() => undefined)
  }

  /** Rows that were claimed and not settled: they are free again. */
  release(rows: readonly ClaimedRow[]): void {
    this.#claims.release(rows)
  }

  /** Scans the queue behind a claim. After the answer, the next claims begin at the bottom. */
  async #scanBehind(connection: BatchConnection, claimed: Promise<ClaimAnswer>): Promise<QueueScan> {
    const scan = await this.#scanQueue(connection, claimed)
    if ((await claimed).rows.length > 0) for (const kind of BOTH_KINDS) this.#fromBottom.add(kind)
    return scan
  }

  /** While it lasts, no other one begins. */
  #track(connection: BatchConnection, scan: Promise<QueueScan>): Promise<QueueScan> {
    const over = () => {
      this.#scanning = undefined
    }
    this.#scanning = { connection, scan }
    scan.then(over, over)
    return scan
  }

  /**
   * The scan behind an earlier claim on this connection. Its answer is here already. It may still wait for the rows of
   * the slots that it found; until they exist, a claim finds nothing in these slots.
   */
  #scanSent(connection: BatchConnection): Promise<QueueScan | undefined> | undefined {
    if (this.#scanning?.connection !== connection) return undefined
    return this.#scanning.scan.catch(() => undefined)
  }

  /** A scan found slots, and the claim for them may have come before their rows. */
  get #missedSlots(): boolean {
    return this.#lacksRows || (this.#hasSlots && this.#fromBottom.has('keyed'))
  }

  /** `answered` is called when messages without a key can be claimed: they need not wait for rows of slots. */
  async #scanQueue(
    connection: BatchConnection,
    behind: Promise<unknown> | undefined,
    answered?: () => void,
  ): Promise<QueueScan> {
    const scanning = scanQueue(connection.execute, this.#plan.queue)
    scanning.catch(() => undefined)
    await behind
    const started = performance.now()
    const scan = await scanning
    // Behind a claim, the answers come together, and only the server knows how long the scan took. The next claims,
    // from the bottom, walk the same rows.
    this.#sweep.learn(scan.workers)
    const tookMs = behind === undefined ? performance.now() - started : scan.tookMs * 2
    this.#sweep.ran(Math.max(tookMs, LEAST_SWEEP_MS))
    const learned = this.#learn(scan)
    if (scan.unkeyed && !this.#plan.ordered) answered?.()
    await learned
    return scan
  }

  async #sweepFrom(connection: BatchConnection, terms: ClaimRequest): Promise<ClaimAnswer | undefined> {
    const started = performance.now()
    this.#fromBottom.clear()
    const answer = await this.#firstOf(connection, terms, this.#kindsOf(terms), true)
    this.#sweep.ran(performance.now() - started)
    return answer
  }

  /** The first claim that took rows; else one that ended early; else the last. */
  async #firstOf(
    connection: BatchConnection,
    terms: ClaimRequest,
    kinds: readonly MessageKind[],
    bottom: boolean,
  ): Promise<ClaimAnswer | undefined> {
    let found: ClaimAnswer | undefined
    for (const kind of kinds) {
      const answer = await this.#claim(connection, terms, kind, bottom)
      if (endsTransaction(answer)) return answer
      if (!found?.partial) found = answer
    }
    return found
  }

  async #learn(scan: QueueScan): Promise<void> {
    const { queue, ordered } = this.#plan
    this.#claims.floors.learn(scan.priorities, scan.slots)
    this.#claims.spread.learn(scan.workers)
    this.#turns.learn(scan)
    const needed = ordered ? [...scan.slots, WHOLE_QUEUE_SLOT] : scan.slots
    const fresh = needed.filter((slot) => !this.#knownSlots.has(slot))
    if (fresh.length === 0) return
    // Not in the batch's transaction: two processes that make the same row would wait for each other's batches.
    this.#lacksRows = true
    await ensureSlots(this.#control.execute, queue, fresh)
    this.#lacksRows = false
    for (const slot of fresh) this.#knownSlots.add(slot)
  }

  get #hasSlots(): boolean {
    return this.#claims.floors.slotCount > 0
  }

  /** In the order of the claim that has been sent. */
  #kindsOf({ kind }: ClaimRequest): readonly MessageKind[] {
    if (kind !== undefined) return [kind]
    return this.#hasSlots ? this.#turns.order() : ONLY_UNKEYED
  }

  async #claim(
    connection: BatchConnection,
    terms: ClaimRequest,
    kind: MessageKind,
    bottom: boolean,
  ): Promise<ClaimAnswer> {
    const isEarly = kind === 'keyed' && this.#lacksRows
    const claimed = this.#claims.claim(connection, terms, kind, bottom)
    const [answer] = await Promise.all([claimed, this.#check?.(connection.execute)])
    // The rows may be there by the time of the answer, but the claim was sent before.
    if (isEarly && answer.rows.length === 0) this.#fromBottom.add(kind)
    this.#turns.took(kind, answer.rows.length > 0, answer.partial)
    return answer
  }

  async #claimLocked(
    { execute }: BatchConnection,
    ids: readonly string[],
    lease: Lease | undefined,
  ): Promise<ClaimAnswer> {
    const sentAtMs = performance.now()
    const [claim] = await Promise.all([claimLocked(execute, this.#plan.queue, ids, lease), this.#check?.(execute)])
    const answeredAtMs = performance.now()
    const found = { full: true, nextDueMs: null, partial: false, void: false }
    return { ...claim, ...found, kind: 'unkeyed', sentAtMs, answeredAtMs }
  }
}
