import type { ClaimAnswer } from '../../claim/claim-answer.ts'
import { groupLostEvents } from '../../errors.ts'
import type { Execute } from '../../table/statement.ts'
import {
  type ClaimedEvent,
  claimEvents,
  lookAtStableEnds,
  type Rest,
  readRest,
  readWindows,
} from '../../table/stream/claim-events.ts'
import { windowAt } from '../../table/stream/event-claim-statements.ts'
import { type GroupStanding, type KnownGroup, type OnFailure, readStanding } from '../../table/stream/known-group.ts'
import { groupUnknown } from '../../table/stream/stream-errors.ts'

/** The number of partitions has changed: a group's claims begin anew. */
export class PartitionsChanged extends Error {}

/** A connection, in a transaction that has been begun. */
export interface InTransaction {
  readonly execute: Execute
}

/** What a claim of events took, to the one who settles it. */
export interface ClaimedEvents {
  readonly group: KnownGroup
  /** In the order in which they are handled; deferred ones too, which are not. */
  readonly events: readonly ClaimedEvent[]
  readonly onFailure: OnFailure
  /** A failed event waits in its partition: the group stops, or it has deferred as many as it may. */
  readonly holds: boolean
  /** Hears when a message that they have become is due. */
  readonly onQueued: (dueUs: number) => void
}

/** What a group's queue has: messages; none, and that is not noted yet; none, as is noted. */
export type QueueState = 'messages' | 'emptied' | 'empty'

/** The answer to a claim of events. Its rows are those that are to be handled. */
export interface EventAnswer extends ClaimAnswer {
  readonly log: ClaimedEvents
  readonly queue: QueueState
}

export function isEventAnswer(answer: object): answer is EventAnswer {
  return 'log' in answer
}

export interface EventClaimerOptions {
  /** The group's queue. */
  readonly queue: string
  readonly stream: string
  readonly name: string
  readonly group: KnownGroup
  /** The most events of a batch. */
  readonly limit: number
  readonly random: () => number
  /** A message of the group's queue is due then, on the clock of `performance`. */
  readonly onQueued: (atMs: number) => void
}

/** What a full claim leaves for the next one on its connection. */
interface KnownBacklog {
  readonly stableEnds: string
  /** One partition filled the batch. The next claim does not count how much is in its partition, which reads its events twice. */
  readonly deep: boolean
}

/** What a claim is to take. */
interface Wanted {
  /** In the order in which they are tried. */
  readonly partitions: readonly number[]
  /** The most events. */
  readonly limit: number
}

/** What a claim has locked and read. */
interface Taken {
  /** The part of the stream that it was in. */
  readonly window: number
  /** The next event of the partition that was first is elsewhere. */
  readonly elsewhere: boolean
  /** There may be more behind it. */
  readonly full: boolean
  readonly stableEnds: string
  readonly claimed: readonly ClaimedEvent[]
  readonly standing: GroupStanding
  readonly mayDefer: boolean
  /** Those of `claimed` that need not wait. */
  readonly events: readonly ClaimedEvent[]
}

/**
 * Claims events of one group for one process. Each claim locks as many partitions as fill a batch, and reads the events
 * behind the group's progress in them, up to the stable ends of the stream. It looks at the stable ends in the same packet,
 * unless the last claim on this connection came back full: stable ends only grow, and there is more below them. Where it has
 * locked only partitions that have to wait, it goes on with the others.
 */
export class EventClaimer {
  readonly #options: EventClaimerOptions
  /** By connection: after a fail-over the other server's stable ends may be lower. */
  readonly #backlogs = new WeakMap<InTransaction, KnownBacklog>()
  /** Where the next claim begins, so that no partition is always the last. */
  #next: number
  /**
   * Partitions whose first event has to wait, because its key is deferred: they are tried last, until each partition
   * has once been first.
   */
  readonly #waiting = new Set<number>()
  /** By partition, in which part of the stream its next event is; undefined: to be looked up. A claim is about one part. */
  #windows: readonly number[] | undefined
  #narrow = false
  #openWaitMs = FIRST_OPEN_WAIT_MS

  constructor(options: EventClaimerOptions) {
    this.#options = options
    this.#next = Math.floor(options.random() * options.group.partitions)
  }

  get group(): KnownGroup {
    return this.#options.group
  }

  /** A batch could be handled only in part: the next ones are of one event. */
  narrow(): void {
    this.#narrow = true
  }

  widen(): void {
    this.#narrow = false
  }

  /**
   * Sends a claim in the transaction that has just been begun.
   *
   * @param most the most events to take. @default a batch
   */
  async claim(connection: InTransaction, most: number = this.#options.limit): Promise<EventAnswer> {
    const sentAtMs = performance.now()
    const limit = this.#narrow ? 1 : Math.min(most, this.#options.limit)
    const known = this.#backlogs.get(connection)
    this.#backlogs.delete(connection)
    const partitions = this.#partitionsInTurn()
    this.#windows ??= await readWindows(connection.execute, this.group)
    let taken = await this.#takeIn(this.#windows[partitions[0] ?? 0] ?? 0, connection, { partitions, limit }, known)
    const tried = new Set<number>()
    let rest: Rest | undefined
    while (taken.events.length === 0) {
      tried.add(taken.window)
      rest = merged(rest, await readRest(connection.execute, this.group, taken.stableEnds, taken.window))
      this.#windows = rest.windows
      const next = rest.windows.find((window) => !tried.has(window))
      if (next === undefined) break
      taken = await this.#takeIn(next, connection, { partitions, limit })
    }
    this.#forgetWindows(taken)
    const { claimed, stableEnds } = taken
    if (claimed.length >= limit) this.#backlogs.set(connection, { stableEnds, deep: partitionsOf(claimed).size === 1 })
    return this.#answer(taken, rest, sentAtMs)
  }

  /** What was found of partitions that have moved on since, or have been moved back. */
  #forgetWindows({ stableEnds, elsewhere }: Taken): void {
    const last = windowAt(Number(stableEnds.split(' ', 1)[0]))
    if (elsewhere || (this.#next === 0 && this.#windows?.some((window) => window !== last))) this.#windows = undefined
  }

  async #takeIn(window: number, connection: InTransaction, wanted: Wanted, known?: KnownBacklog): Promise<Taken> {
    const { limit } = wanted
    let { partitions } = wanted
    let taken = await this.#take(connection, window, wanted, known)
    // Others may have read all that was below those stable ends.
    if (known !== undefined && taken.claimed.length === 0) taken = await this.#take(connection, window, wanted)
    while (taken.events.length === 0 && taken.claimed.length > 0) {
      const waiting = partitionsOf(taken.claimed)
      for (const partition of waiting) this.#waiting.add(partition)
      partitions = partitions.filter((partition) => !waiting.has(partition))
      taken = await this.#take(connection, window, { partitions, limit })
    }
    return taken
  }

  async #take(
    connection: InTransaction,
    window: number,
    { partitions, limit }: Wanted,
    known?: KnownBacklog,
  ): Promise<Taken> {
    const { execute } = connection
    const { queue } = this.#options
    const enough = known?.deep === true ? 1 : limit
    const looked = known?.stableEnds ?? lookAtStableEnds(execute, this.group)
    const where = { stableEnds: known?.stableEnds ?? null, window }
    const claiming = claimEvents(execute, this.group, { queue, partitions, limit, enough, ...where })
    const reading = readStanding(execute, this.group, queue)
    const [stableEnds, { events: claimed, elsewhere }, read] = await Promise.all([looked, claiming, reading])
    const standing = this.#checked(read)
    if (stableEnds.split(' ').length !== this.group.partitions + 1) throw new PartitionsChanged()
    // A group that stops defers nothing: what it deferred before that setting is handled first.
    const mayDefer = standing.onFailure === 'defer' && standing.queuedCount < standing.deferLimit
    const events = mayDefer ? claimed : beforeDeferred(claimed)
    return { window, elsewhere, stableEnds, claimed, standing, mayDefer, events, full: claimed.length >= enough }
  }

  /** @throws SluiceError GROUP_UNKNOWN, GROUP_LOST_EVENTS */
  #checked(standing: GroupStanding | undefined): GroupStanding {
    const { stream, name } = this.#options
    if (standing === undefined) throw groupUnknown(stream, name)
    const { lost } = standing
    if (lost !== null) throw groupLostEvents(stream, name, lost.from, lost.to)
    return standing
  }

  #partitionsInTurn(): readonly number[] {
    const { partitions } = this.group
    const first = this.#next
    this.#next = (first + 1) % partitions
    if (this.#next === 0) this.#waiting.clear()
    const inTurn = Array.from({ length: partitions }, (_, at) => (first + at) % partitions)
    return inTurn.toSorted((a, b) => Number(this.#waiting.has(a)) - Number(this.#waiting.has(b)))
  }

  #answer(taken: Taken, rest: Rest | undefined, sentAtMs: number): EventAnswer {
    const { stableEnds, full, events, mayDefer, standing } = taken
    const { nowUs, evidence, transaction, onFailure } = standing
    const onQueued = (dueUs: number) => this.#options.onQueued(sentAtMs + (dueUs - nowUs) / 1_000)
    const nextDueMs = events.length > 0 || rest === undefined ? null : this.#nextLookMs(rest, stableEnds)
    return {
      kind: 'keyed',
      nowUs,
      sentAtMs,
      answeredAtMs: performance.now(),
      transaction,
      evidence,
      rows: events.filter(({ deferred }) => !deferred).map(({ row }) => row),
      full,
      nextDueMs,
      partial: false,
      void: false,
      log: { group: this.group, events, onFailure, holds: !mayDefer, onQueued },
      queue: queueState(standing),
    }
  }

  /**
   * When to look again without a notification: while an append is open, because a rolled-back one notifies no worker,
   * and events behind its floor wait for that; while others have partitions with events in flight, because they may die; and
   * when an event for which its partition waits is tried again.
   */
  #nextLookMs({ unread, heldMs }: Rest, stableEnds: string): number | null {
    const [head = 0, ...ends] = stableEnds.split(' ').map(Number)
    if (ends.some((end) => end < head)) {
      const waitMs = this.#openWaitMs
      this.#openWaitMs = Math.min(waitMs * 2, LAST_OPEN_WAIT_MS)
      return waitMs * (1 + this.#options.random() / 5)
    }
    this.#openWaitMs = FIRST_OPEN_WAIT_MS
    return unread ? Math.min(OTHERS_WAIT_MS, heldMs ?? OTHERS_WAIT_MS) : heldMs
  }
}

function queueState({ mayBeQueued, queuedCount }: GroupStanding): QueueState {
  if (!mayBeQueued) return 'empty'
  return queuedCount > 0 ? 'messages' : 'emptied'
}

function merged(before: Rest | undefined, rest: Rest): Rest {
  return { ...rest, unread: rest.unread || before?.unread === true }
}

function partitionsOf(events: readonly ClaimedEvent[]): ReadonlySet<number> {
  return new Set(events.map(({ partition }) => partition))
}

/**
 * While a group has deferred as many as it may, a partition waits at its first event that would be deferred as well: a retry
 * that is slower than the appends would otherwise draw the whole stream into the queue. One that fails then waits in
 * its partition.
 */
function beforeDeferred(events: readonly ClaimedEvent[]): readonly ClaimedEvent[] {
  const waiting = new Set<number>()
  return events.filter(({ partition, deferred }) => {
    if (deferred) waiting.add(partition)
    return !waiting.has(partition)
  })
}

const FIRST_OPEN_WAIT_MS = 5
const LAST_OPEN_WAIT_MS = 1_000
const OTHERS_WAIT_MS = 250
