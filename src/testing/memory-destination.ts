import { noteKind } from '../basics/adapter-kinds.ts'
import type { Destination, DestinationConnection, OutgoingMessage, Verdict } from '../relay/destination.ts'

/** What a destination in memory answers to a message: a verdict, or a promise of one, which may never come. */
export type Answer = (message: OutgoingMessage) => Verdict | Promise<Verdict>

/**
 * A destination in memory, for tests of what a relay does: it keeps what it is sent, and answers as it is told.
 *
 * @example
 * const to = new MemoryDestination()
 * await sluice.relay('orders', { to }).runOnce()
 * expect(to.stored.map(({ message }) => message.payload)).toEqual([{ id: 7 }])
 */
export class MemoryDestination implements Destination {
  readonly system = 'memory'
  /** What it was sent, in the order in which it came, and again each time. */
  readonly sent: OutgoingMessage[] = []
  /** What it has confirmed, in that order. */
  readonly stored: OutgoingMessage[] = []
  /** False: no connection can be had, and messages on one that is open are `unavailable`. */
  reachable = true
  /** How many connections are open. */
  connections = 0
  /** Whether it keeps the order of a key by itself, as {@link Destination.keepsOrder} says. Set it before the relay is made. */
  keepsOrder = false
  /** What it answers from now on. @default confirmed */
  answer: Answer = () => CONFIRMED

  constructor() {
    noteKind('destination', this)
  }

  /** The headers of a CloudEvent are `ce-id` and so on. */
  cloudEventHeader(attribute: string, value: string): readonly [name: string, value: string] {
    return [`ce-${attribute}`, value]
  }

  async open(): Promise<DestinationConnection> {
    if (!this.reachable) throw new Error(OUT_OF_REACH)
    this.connections += 1
    return new MemoryConnection(this)
  }
}

class MemoryConnection implements DestinationConnection {
  readonly #destination: MemoryDestination
  readonly #closed = new AbortController()

  constructor(destination: MemoryDestination) {
    this.#destination = destination
  }

  check(): undefined {
    return undefined
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    const over = AbortSignal.any([signal, this.#closed.signal])
    if (over.aborted) return messages.map(() => NO_ANSWER)
    const ended = new Promise<Verdict>((resolve) => {
      over.addEventListener('abort', () => resolve(NO_ANSWER), { once: true })
    })
    const last = new Map<string | null, Promise<Verdict>>()
    return Promise.all(
      messages.map((outgoing) => {
        const { orderingKey } = outgoing.message
        const verdict = Promise.race([this.#sendAfter(last.get(orderingKey), outgoing), ended])
        if (this.#destination.keepsOrder && orderingKey !== null) last.set(orderingKey, verdict)
        return verdict
      }),
    )
  }

  async close(): Promise<void> {
    if (this.#closed.signal.aborted) return
    this.#closed.abort()
    this.#destination.connections -= 1
  }

  /** @param before what becomes of the message before it of its key, where that counts */
  async #sendAfter(before: Promise<Verdict> | undefined, message: OutgoingMessage): Promise<Verdict> {
    return before === undefined || (await before).kind === 'confirmed' ? this.#send(message) : BEHIND
  }

  async #send(message: OutgoingMessage): Promise<Verdict> {
    const destination = this.#destination
    if (!destination.reachable) return { kind: 'unavailable', error: OUT_OF_REACH }
    destination.sent.push(message)
    const verdict = await destination.answer(message)
    if (verdict.kind === 'confirmed') destination.stored.push(message)
    return verdict
  }
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const NO_ANSWER: Verdict = { kind: 'unavailable', error: 'no answer in time' }
const OUT_OF_REACH = 'out of reach'
const BEHIND: Verdict = { kind: 'unavailable', error: 'the message before it of its key was not stored' }
