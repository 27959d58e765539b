import type { DeliveredMessage } from '../../claim/delivered-message.ts'
import type { Alphabet } from '../../session/alphabet.ts'
import { type Decided, type Decision, isDue } from '../../settle/decision.ts'
import { fitted } from '../../settle/send-decisions.ts'
import type { Sink, Writing } from '../../settle/settlement.ts'
import { forgetEvidence, wakeSleepers } from '../../table/settle/around.ts'
import type { Execute } from '../../table/statement.ts'
import type { ClaimedEvent } from '../../table/stream/claim-events.ts'
import {
  type DeadEvent,
  deadLetterEvents,
  type HeldPartition,
  holdPartitions,
  type Moved,
  moveProgress,
  type QueuedEvent,
  queueEvents,
} from '../../table/stream/settle-events.ts'
import { allAnswered } from '../../transaction/all-answered.ts'
import type { ClaimedEvents } from './event-claimer.ts'

export interface LogRowsOptions {
  /** The group's queue. */
  readonly queue: string
  readonly alphabet: Alphabet
  /** The database's clock now, or a little earlier, in microseconds since 1970. */
  readonly passedUs: () => number
  /** As the group's plan says. */
  readonly mayRepeat: boolean
}

/**
 * A batch of events of a stream. Those that failed, and the later ones of their keys, become messages of the group's queue, and
 * the group's progress moves behind all that is settled. The settled events of a partition are a prefix: what the batch has not
 * come to stays behind the progress, with all that follows it. In a group that stops, or has deferred as many as it may, what
 * failed stays too, and the partition waits for it.
 */
export class LogRows implements Sink {
  readonly #claimed: ClaimedEvents
  readonly #options: LogRowsOptions
  readonly partitionOf: Sink['partitionOf']

  constructor(claimed: ClaimedEvents, options: LogRowsOptions) {
    this.#claimed = claimed
    this.#options = options
    this.partitionOf = partitionOf(claimed)
  }

  write(execute: Execute, decided: ReadonlyMap<string, Decided>, forgotten: readonly string[]): Writing {
    const { group, events, onQueued } = this.#claimed
    const { queue, passedUs } = this.#options
    const { queued, dead, moved, held, withdrawn } = this.#planned(events, decided)
    const sent: Promise<void>[] = []
    if (queued.length > 0) sent.push(queueEvents(execute, group, queued))
    if (dead.length > 0) sent.push(deadLetterEvents(execute, group, dead))
    if (moved.length > 0) sent.push(moveProgress(execute, group, moved))
    if (held.length > 0) sent.push(holdPartitions(execute, group, held))
    if (anyDue(decided.values(), passedUs(), withdrawn)) sent.push(wakeSleepers(execute, queue))
    if (forgotten.length > 0) sent.push(forgetEvidence(execute, queue, forgotten))
    const written = allAnswered(sent).then(() => {
      if (queued.length > 0) onQueued(Math.min(...queued.map(({ dueUs }) => dueUs ?? 0)))
    })
    return { written, left: withdrawn }
  }

  #planned(events: readonly ClaimedEvent[], decided: ReadonlyMap<string, Decided>): Planned {
    const keys = failedKeys(decided.values())
    const planned = new Plan()
    for (const event of events) {
      const { id, orderingKey } = event.row
      const decision = decided.get(id)?.decision
      if (decision !== undefined) this.#plan(planned, event, decision)
      // An earlier event of its key is in the queue, or has failed in this batch.
      else if (event.deferred || (orderingKey !== null && keys.has(orderingKey))) planned.queue(event, DEFERRED)
      else planned.leave(event)
    }
    return planned
  }

  #plan(planned: Plan, event: ClaimedEvent, decision: Decision): void {
    const { alphabet } = this.#options
    switch (decision.kind) {
      case 'blocked':
        planned.hold(event, { ...fitted(decision, alphabet), dueUs: null })
        break
      case 'later':
        if (this.#claimed.holds) planned.hold(event, fitted(decision, alphabet))
        else planned.queue(event, fitted(decision, alphabet))
        break
      case 'dead':
        planned.deadLetter(event, { ...fitted(decision, alphabet), reason: alphabet.fit(decision.reason) })
        break
      case 'gone':
        if (this.#options.mayRepeat) planned.settleOrRepeat(event)
        else planned.settle(event)
        break
      case 'back':
        planned.leave(event)
    }
  }
}

/** Undefined: what fails goes to the group's queue, and keeps only the later events of its key back. */
function partitionOf({ holds, events }: ClaimedEvents): Sink['partitionOf'] {
  if (!holds) return undefined
  const partitions = new Map(events.map(({ row, partition }) => [row.id, partition]))
  return ({ id }: DeliveredMessage) => partitions.get(id) ?? 0
}

/** The ordering keys of events that are tried again: the later ones of theirs wait. */
function failedKeys(decided: Iterable<Decided>): ReadonlySet<string> {
  const keys = new Set<string>()
  for (const { decision, message } of decided) {
    if (decision.kind === 'later' && message.orderingKey !== null) keys.add(message.orderingKey)
  }
  return keys
}

/** Whether a message is due again as soon as this is written. */
function anyDue(decided: Iterable<Decided>, nowUs: number, withdrawn: ReadonlySet<string>): boolean {
  for (const one of decided) if (isDue(one, nowUs) && !withdrawn.has(one.message.id)) return true
  return false
}

const DEFERRED = { attempt: 0, dueUs: null, error: null } as const

interface Planned {
  readonly queued: readonly QueuedEvent[]
  readonly dead: readonly DeadEvent[]
  readonly moved: readonly Moved[]
  readonly held: readonly HeldPartition[]
  /** Events of which nothing is kept. */
  readonly withdrawn: ReadonlySet<string>
}

/** What is written, event by event in their order. */
class Plan implements Planned {
  readonly queued: QueuedEvent[] = []
  readonly dead: DeadEvent[] = []
  readonly held: HeldPartition[] = []
  readonly withdrawn = new Set<string>()
  readonly #moved = new Map<number, { readonly partition: number; readonly from: number; to: number }>()
  /** Partitions in which an event was left. */
  readonly #left = new Set<number>()

  get moved(): readonly Moved[] {
    return [...this.#moved.values()]
  }

  queue(event: ClaimedEvent, { attempt, dueUs, error, details }: Omit<QueuedEvent, 'partition' | 'position'>): void {
    if (this.#stays(event)) return
    const { partition, position } = event
    this.settle(event)
    this.queued.push({ partition, position, attempt, dueUs, error, details })
  }

  /** Its partition waits for it. */
  hold(event: ClaimedEvent, { attempt, dueUs, error, details }: Omit<QueuedEvent, 'partition' | 'position'>): void {
    if (this.#stays(event)) return
    const { partition, from } = event
    this.leave(event)
    const position = this.#moved.get(partition)?.to ?? from
    this.held.push({ partition, position, untilUs: dueUs, attempt, error, details })
  }

  deadLetter(
    event: ClaimedEvent,
    { attempt, reason, error, details }: Omit<DeadEvent, 'partition' | 'position'>,
  ): void {
    if (this.#stays(event)) return
    const { partition, position } = event
    this.settle(event)
    this.dead.push({ partition, position, attempt, reason, error, details })
  }

  /** @throws TypeError if an earlier event of its partition was left */
  settle({ partition, from, position }: ClaimedEvent): void {
    if (this.#left.has(partition))
      throw new TypeError(`event ${position}: settled before an earlier one of partition ${partition}`)
    const moved = this.#moved.get(partition)
    if (moved === undefined) this.#moved.set(partition, { partition, from, to: position })
    else moved.to = position
  }

  /** Behind an event that was left it stays, and comes again. */
  settleOrRepeat(event: ClaimedEvent): void {
    if (!this.#stays(event)) this.settle(event)
  }

  leave({ partition }: ClaimedEvent): void {
    this.#left.add(partition)
  }

  /** Nothing is kept of an event behind one that was left: it comes again behind that. */
  #stays({ partition, row }: ClaimedEvent): boolean {
    const stays = this.#left.has(partition)
    if (stays) this.withdrawn.add(row.id)
    return stays
  }
}
