import type { DeliveredMessage } from '../claim/delivered-message.ts'
import { type GivenUp, Settlement, type SettlementOptions } from '../settle/settlement.ts'
import { anyDue } from '../settle/write-settlement.ts'
import { forgetEvidence, wakeSleepers } from '../table/settle/settle.ts'
import type { Execute } from '../table/statement.ts'
import type { ClaimedEvent } from '../table/stream/claim-events.ts'
import {
  buryEvents,
  type DeadEvent,
  type HeldSlot,
  holdSlots,
  type Moved,
  moveProgress,
  type QueuedEvent,
  queueEvents,
} from '../table/stream/settle-events.ts'
import { withCause } from '../telemetry/events.ts'
import { allAnswered } from '../transaction/all-answered.ts'
import type { ClaimedEvents } from './event-claimer.ts'

/**
 * Settles a batch of events: those that failed, and the later ones of their keys, become messages of the group's queue, and
 * the group's progress moves behind all that is settled. In each slot that is a first part of its events: what the batch has
 * not come to stays behind the progress, with all that follows it in its slot. In a group that stops, or has parked as many as
 * it may, what failed stays too, and the slot waits for it.
 */
export class EventSettlement extends Settlement {
  readonly #claimed: ClaimedEvents
  readonly #queue: string
  /** By event, where slots wait. */
  #slots: ReadonlyMap<string, number> | undefined

  constructor(options: SettlementOptions, claimed: ClaimedEvents) {
    super(options)
    this.#claimed = claimed
    this.#queue = options.plan.queue
  }

  get #stops(): boolean {
    return this.#claimed.onFailure === 'stop'
  }

  override get slotOf(): Settlement['slotOf'] {
    if (!this.#claimed.holds) return undefined
    this.#slots ??= new Map(this.#claimed.events.map(({ row, slot }) => [row.id, slot]))
    return ({ id }) => this.#slots?.get(id) ?? 0
  }

  protected override giveUp(message: DeliveredMessage, given: GivenUp, thrown?: unknown): boolean {
    const { slotOf } = this
    if (slotOf === undefined || !this.#stops) return super.giveUp(message, given, thrown)
    const { type, options } = message.row
    const position = options?.eventPosition ?? 0
    const event = { kind: 'slot.stopped', queue: this.#queue, slot: slotOf(message), position, type, ...given } as const
    return this.stand(message, given, withCause(event, thrown))
  }

  override async write(execute: Execute): Promise<void> {
    const { group, events, onQueued } = this.#claimed
    const { queued, dead, moved, held, withdrawn } = this.#planned(events)
    if (withdrawn.size > 0) this.withdraw(withdrawn)
    const { writes } = this
    const sent: Promise<void>[] = []
    if (queued.length > 0) sent.push(queueEvents(execute, group, queued))
    if (dead.length > 0) sent.push(buryEvents(execute, group, dead))
    if (moved.length > 0) sent.push(moveProgress(execute, group, moved))
    if (held.length > 0) sent.push(holdSlots(execute, group, held))
    if (anyDue(writes)) sent.push(wakeSleepers(execute, this.#queue))
    if (this.forgotten.length > 0) sent.push(forgetEvidence(execute, this.#queue, this.forgotten))
    await allAnswered(sent)
    if (queued.length > 0) onQueued(Math.min(...queued.map(({ dueUs }) => dueUs ?? 0)))
  }

  #planned(events: readonly ClaimedEvent[]): Planned {
    const { heldKeys, writes } = this
    const postponed = new Map(writes.postponed.map((one) => [one.id, one]))
    const dead = new Map(writes.dead.map((one) => [one.id, one]))
    const planned = new Plan()
    for (const event of events) {
      const { id, orderingKey } = event.row
      const failed = postponed.get(id)
      const died = dead.get(id)
      if (failed !== undefined && this.#claimed.holds) planned.hold(event, failed)
      else if (failed !== undefined) planned.queue(event, failed)
      else if (died !== undefined) planned.bury(event, died)
      else if (this.has(id)) planned.settle(event)
      // An earlier event of its key is in the queue, or has failed in this batch.
      else if (event.parked || (orderingKey !== null && heldKeys.has(orderingKey))) planned.queue(event, PARKED)
      else planned.leave(event)
    }
    return planned
  }
}

const PARKED = { attempt: 0, dueUs: null, error: null } as const

interface Planned {
  readonly queued: readonly QueuedEvent[]
  readonly dead: readonly DeadEvent[]
  readonly moved: readonly Moved[]
  readonly held: readonly HeldSlot[]
  /** Events of which nothing is kept. */
  readonly withdrawn: ReadonlySet<string>
}

/** What is written, event by event in their order. */
class Plan implements Planned {
  readonly queued: QueuedEvent[] = []
  readonly dead: DeadEvent[] = []
  readonly held: HeldSlot[] = []
  readonly withdrawn = new Set<string>()
  readonly #moved = new Map<number, { readonly slot: number; readonly from: number; to: number }>()
  /** Slots in which an event was left. */
  readonly #left = new Set<number>()

  get moved(): readonly Moved[] {
    return [...this.#moved.values()]
  }

  queue(event: ClaimedEvent, { attempt, dueUs, error, details }: Omit<QueuedEvent, 'slot' | 'position'>): void {
    if (this.#stays(event)) return
    const { slot, position } = event
    this.settle(event)
    this.queued.push({ slot, position, attempt, dueUs, error, details })
  }

  /** Its slot waits for it. */
  hold(event: ClaimedEvent, { attempt, dueUs, error }: Pick<QueuedEvent, 'attempt' | 'dueUs' | 'error'>): void {
    if (this.#stays(event)) return
    const { slot, from } = event
    this.leave(event)
    const position = this.#moved.get(slot)?.to ?? from
    this.held.push({ slot, position, untilUs: dueUs === Number.POSITIVE_INFINITY ? null : dueUs, attempt, error })
  }

  bury(event: ClaimedEvent, { attempt, reason, error, details }: Omit<DeadEvent, 'slot' | 'position'>): void {
    if (this.#stays(event)) return
    const { slot, position } = event
    this.settle(event)
    this.dead.push({ slot, position, attempt, reason, error, details })
  }

  /** @throws TypeError if the progress cannot say it: an earlier event of its slot was left */
  settle({ slot, from, position }: ClaimedEvent): void {
    if (this.#left.has(slot)) throw new TypeError(`event ${position}: settled before an earlier one of slot ${slot}`)
    const moved = this.#moved.get(slot)
    if (moved === undefined) this.#moved.set(slot, { slot, from, to: position })
    else moved.to = position
  }

  leave({ slot }: ClaimedEvent): void {
    this.#left.add(slot)
  }

  /** Nothing is kept of what has failed, or would be parked, behind an event that was left: it comes again behind that. */
  #stays({ slot, row }: ClaimedEvent): boolean {
    const stays = this.#left.has(slot)
    if (stays) this.withdrawn.add(row.id)
    return stays
  }
}
