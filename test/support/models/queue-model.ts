import { expect } from 'vitest'
import type { Step } from './queue-model-script.ts'

export const HOUR_US = 3_600_000_000
/** As the pipelines under test say. */
export const MOST_ATTEMPTS = 3
export const POLICY_HOURS = 1

/** When something is due, or happened: known to the microsecond only when the database has been asked. */
export type Instant = number | Window

export interface Window {
  readonly fromUs: number
  readonly toUs: number
}

/** What is given with a message. */
export interface Given {
  readonly key: string | null
  readonly type: string | null
  readonly priority: number
  readonly maxAttempts: number | null
  readonly headers: Readonly<Record<string, unknown>>
}

export interface ModelMessage extends Given {
  readonly id: string
  readonly slot: number
  readonly enqueuedUs: number
  attempt: number
  due: Instant
  failed: boolean
  error: string | null
  /** It has been leased, and closes its key for the later ones until it is settled for good. */
  closes: boolean
}

/** How a pipeline settles. */
export interface Settling {
  readonly ordered: boolean
  readonly leased: boolean
}

interface ModelDead extends ModelMessage {
  readonly reason: string
  died: Instant
}

interface Hold {
  readonly id: string
  readonly postponed: ModelMessage[]
  until: Instant
}

/** Which dead letters: those that match all. */
export interface ModelFilter {
  readonly ids: readonly string[] | null
  readonly type: string | null
  readonly diedBefore: number | null
  readonly diedAfter: number | null
}

/** Messages of these slots are held as one: those without a key in an ordered queue. */
export const WHOLE_QUEUE = 256

/** One queue as it should be, without a database. */
export class QueueModel {
  readonly messages = new Map<string, ModelMessage>()
  readonly dead = new Map<string, ModelDead>()
  readonly effects = new Map<string, number>()
  readonly children: string[] = []
  readonly #holds = new Map<number, Map<string, Hold>>()

  /** What the database said the instants are, within what they may be. */
  learn(dueUs: ReadonlyMap<string, number>, diedUs: ReadonlyMap<string, number>): void {
    for (const message of this.messages.values()) message.due = exact(message.due, dueUs.get(message.id))
    for (const dead of this.dead.values()) dead.died = exact(dead.died, diedUs.get(dead.id))
    for (const hold of this.#allHolds()) {
      if (typeof hold.until !== 'number') hold.until = Math.max(...hold.postponed.map(({ due }) => us(due)))
    }
  }

  /** Until when the key of a message waits, and for which message. */
  holdOn({ slot, key }: ModelMessage): Hold | undefined {
    return this.#holds.get(slot)?.get(key ?? '')
  }

  /** Due messages that a run may take now; `ordered`: those without a key are in order as well. */
  takeable(ordered: boolean, nowUs: number): readonly ModelMessage[] {
    return this.inOrderOfIds().filter((message) => {
      if (message.key === null && !ordered) return isPast(message.due, nowUs)
      const hold = this.holdOn(message)
      // In an order, what had no delay is due also if the clock has been set back since. A lease or its end is a delay.
      const due = isPast(message.due, message.closes ? nowUs : Math.max(nowUs, message.enqueuedUs))
      return due && (hold === undefined || isPast(hold.until, nowUs)) && this.closedBy(message) === undefined
    })
  }

  /** Another message that closes the key of this one: of several the first. */
  closedBy({ id, key }: ModelMessage): ModelMessage | undefined {
    const first = this.inOrderOfIds().find((other) => other.closes && other.key === key)
    return first?.id === id ? undefined : first
  }

  inOrderOfIds(): readonly ModelMessage[] {
    return [...this.messages.values()].sort(byId)
  }

  deadInOrderOfIds(): readonly ModelDead[] {
    return [...this.dead.values()].sort(byId)
  }

  /** What a committed call has made of a message. */
  settle(message: ModelMessage, step: Step, how: Settling, when: Window): void {
    const attempt = message.attempt + 1
    const error = errorOf(step)
    if (step.end === 'ack') this.messages.delete(message.id)
    else if (step.end === 'snooze') this.#postpone(message, step.hours ?? 1, how, when)
    else if (step.end === 'dead letter') this.#bury(message, 'as the script says', attempt, error, when)
    else this.#fail(message, step, attempt, how, when)
  }

  #fail(message: ModelMessage, step: Step, attempt: number, how: Settling, when: Window): void {
    const error = errorOf(step)
    const most = message.maxAttempts ?? MOST_ATTEMPTS
    if (attempt >= most) {
      this.#bury(message, `failed ${attempt} of ${most} attempts`, attempt, error, when)
      return
    }
    Object.assign(message, { attempt, error, failed: true })
    this.#postpone(message, step.end === 'retry' ? (step.hours ?? POLICY_HOURS) : POLICY_HOURS, how, when)
  }

  redrive(filter: ModelFilter, when: Window): number {
    const chosen = this.#matching(filter)
    for (const { reason: _reason, died: _died, ...message } of chosen) {
      this.dead.delete(message.id)
      this.messages.set(message.id, { ...message, attempt: 0, failed: false, due: when, closes: false })
    }
    return chosen.length
  }

  deleteDead(filter: ModelFilter): number {
    const chosen = this.#matching(filter)
    for (const { id } of chosen) this.dead.delete(id)
    return chosen.length
  }

  #matching({ ids, type, diedBefore, diedAfter }: ModelFilter): readonly ModelDead[] {
    return this.deadInOrderOfIds().filter(
      (dead) =>
        (ids?.includes(dead.id) ?? true) &&
        (type === null || dead.type === type) &&
        (diedBefore === null || us(dead.died) < diedBefore) &&
        (diedAfter === null || us(dead.died) >= diedAfter),
    )
  }

  #postpone(message: ModelMessage, hours: number, { ordered, leased }: Settling, when: Window): void {
    message.due = { fromUs: when.fromUs + hours * HOUR_US, toUs: when.toUs + hours * HOUR_US }
    if (leased) message.closes = message.key !== null
    if (leased || (message.key === null && !ordered)) return
    const held = this.#holds.get(message.slot) ?? new Map<string, Hold>()
    this.#holds.set(message.slot, held)
    // Whoever writes takes away what has run out.
    for (const [key, { until }] of held) if (typeof until === 'number' && until <= when.fromUs) held.delete(key)
    const hold = held.get(message.key ?? '')
    if (hold !== undefined && typeof hold.until !== 'number') hold.postponed.push(message)
    else held.set(message.key ?? '', { id: message.id, postponed: [message], until: message.due })
  }

  #bury(message: ModelMessage, reason: string, attempt: number, error: string | null, died: Instant): void {
    this.messages.delete(message.id)
    this.dead.set(message.id, { ...message, attempt, reason, error, died })
  }

  *#allHolds(): Generator<Hold> {
    for (const held of this.#holds.values()) yield* held.values()
  }
}

/** What has been postponed in this very run is due in an hour at the earliest. */
function isPast(instant: Instant, nowUs: number): boolean {
  return typeof instant === 'number' && instant <= nowUs
}

export function us(instant: Instant): number {
  if (typeof instant === 'number') return instant
  throw new Error('the database has not been asked when that is')
}

function exact(instant: Instant, seenUs: number | undefined): Instant {
  if (typeof instant === 'number' || seenUs === undefined) return instant
  expect(seenUs).toBeGreaterThanOrEqual(instant.fromUs)
  expect(seenUs).toBeLessThanOrEqual(instant.toUs)
  return seenUs
}

function byId(a: { readonly id: string }, b: { readonly id: string }): number {
  return Number(a.id) - Number(b.id)
}

/** What is stored of how a step failed. */
function errorOf({ end, text }: Step): string | null {
  const stored = text.replaceAll('\0', '\uFFFD').toWellFormed()
  switch (end) {
    case 'throw':
      return `Error: ${stored}`
    case 'broken statement':
      return 'error: division by zero'
    case 'retry':
      return text === '' ? 'The handler asked for a retry' : stored
    default:
      return text === '' ? null : stored
  }
}
