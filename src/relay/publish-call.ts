import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { OutgoingMessage, Verdict } from './destination.ts'

/** Sends a message. `answered` gets its verdict, once, now or later. */
type Send = (outgoing: OutgoingMessage, answered: (verdict: Verdict) => void) => void

/**
 * One call of `publish`, for a destination that takes messages one by one. A message with a key is sent when the one before it of
 * its key is confirmed, or can never be: a broker that loses the first and stores the second has them in the wrong order.
 */
export class PublishCall {
  /** In the order of the messages. */
  readonly verdicts: Promise<readonly Verdict[]>
  readonly #messages: readonly OutgoingMessage[]
  readonly #send: Send
  readonly #known: (Verdict | undefined)[]
  /** The indexes of the messages of each key that are not sent yet. */
  readonly #waiting = new Map<string | null, number[]>()
  readonly #done: (verdicts: readonly Verdict[]) => void
  #left: number

  constructor(messages: readonly OutgoingMessage[], send: Send) {
    const { promise, resolve } = Promise.withResolvers<readonly Verdict[]>()
    this.verdicts = promise
    this.#messages = messages
    this.#send = send
    this.#known = messages.map(() => undefined)
    this.#done = resolve
    this.#left = messages.length
    if (messages.length === 0) resolve([])
    for (const index of this.#first()) this.#sendAt(index)
  }

  /** The verdicts, at the latest when the signal aborts. */
  async until(signal: AbortSignal, late: Verdict): Promise<readonly Verdict[]> {
    await untilAborted(this.verdicts, signal)
    this.end(late)
    return this.verdicts
  }

  /** Nothing more is sent, and what has no verdict gets this one. */
  end(verdict: Verdict): void {
    for (const index of this.#known.keys()) this.#note(index, verdict)
  }

  /** The indexes of those that wait for no other. */
  #first(): readonly number[] {
    const first: number[] = []
    for (const [index, { message }] of this.#messages.entries()) {
      const { orderingKey } = message
      const waiting = orderingKey === null ? undefined : this.#waiting.get(orderingKey)
      if (waiting !== undefined) {
        waiting.push(index)
        continue
      }
      if (orderingKey !== null) this.#waiting.set(orderingKey, [])
      first.push(index)
    }
    return first
  }

  #sendAt(index: number): void {
    const outgoing = this.#messages[index]
    if (outgoing !== undefined) this.#send(outgoing, (verdict) => this.#answered(index, outgoing, verdict))
  }

  #answered(index: number, { message }: OutgoingMessage, verdict: Verdict): void {
    if (!this.#note(index, verdict)) return
    const waiting = this.#waiting.get(message.orderingKey)
    if (waiting === undefined) return
    const goesOn = verdict.kind === 'confirmed' || verdict.kind === 'refused'
    if (!goesOn) for (const behind of waiting.splice(0)) this.#note(behind, BEHIND)
    const next = waiting.shift()
    if (next !== undefined) this.#sendAt(next)
  }

  /** False: it has a verdict already. */
  #note(index: number, verdict: Verdict): boolean {
    if (this.#known[index] !== undefined) return false
    this.#known[index] = verdict
    this.#left -= 1
    if (this.#left === 0) this.#done(this.#known.filter((known) => known !== undefined))
    return true
  }
}

const BEHIND: Verdict = { kind: 'unavailable', error: 'the message before it of its key was not stored' }
