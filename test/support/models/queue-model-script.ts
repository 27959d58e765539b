import fc from 'fast-check'
import type { HandlerTransaction } from '../../../src/handle/transaction/message-transaction.ts'
import { deadLetter, type Message, type Outcome, retryLater, snooze } from '../../../src/message.ts'

/** What a handler does with one delivery of a message, and how that ends. */
export interface Step {
  readonly end: 'ack' | 'throw' | 'broken statement' | 'retry' | 'snooze' | 'dead letter'
  /** For how long it asks, where it may; null: the policy says. */
  readonly hours: number | null
  /** What it says of an error; empty: nothing. */
  readonly text: string
  readonly writes: boolean
  readonly enqueues: boolean
}

export const stepOf: fc.Arbitrary<Step> = fc.record({
  end: fc.constantFrom('ack', 'throw', 'broken statement', 'retry', 'snooze', 'dead letter'),
  hours: fc.constantFrom(null, 1, 3),
  text: fc.constantFrom('', 'no such customer', "it's; \\ DROP", 'NUL \0 inside', '\ud800 alone', '{NULL,"a"}'),
  writes: fc.boolean(),
  enqueues: fc.boolean(),
})

/** What becomes of a message whose script has come to its end. */
const AT_LAST: Step = { end: 'ack', hours: null, text: '', writes: true, enqueues: false }

/** Messages that go to a handler together, or what it did with them. */
export type TraceEvent =
  | { readonly kind: 'start'; readonly messages: readonly Message[] }
  | { readonly kind: 'end'; readonly steps: readonly (readonly [id: string, step: Step])[]; readonly counts: boolean }

interface Context {
  readonly tx: HandlerTransaction
  readonly enqueue: (queue: string, payload: unknown) => Promise<string>
}

/** Plays the messages' scripts, one step per delivery, and keeps what happened in the order in which it did. */
export class ScriptPlayer {
  readonly #scripts: (readonly Step[])[] = []
  readonly #next = new Map<string, number>()
  #trace: TraceEvent[] = []

  /** Keeps a script, and returns the payload of a message that is to follow it. */
  payloadFor(script: readonly Step[]): number {
    return this.#scripts.push(script) - 1
  }

  /** What happened since the last call. */
  takeTrace(): readonly TraceEvent[] {
    const trace = this.#trace
    this.#trace = []
    return trace
  }

  readonly handle = async (message: Message, context: Context): Promise<Outcome | undefined> => {
    const [outcome] = await this.#play([message], context)
    return outcome
  }

  readonly handleBatch = (messages: readonly Message[], context: Context): Promise<(Outcome | undefined)[]> =>
    this.#play(messages, context)

  async #play(messages: readonly Message[], context: Context): Promise<(Outcome | undefined)[]> {
    this.#trace.push({ kind: 'start', messages })
    const steps = messages.map((message) => this.#stepFor(message))
    // A call for several messages that throws is followed by one for each.
    const counts = messages.length === 1 || !steps.some(throws)
    try {
      for (const [at, message] of messages.entries()) await write(message, steps[at]!, context)
      const outcomes: (Outcome | undefined)[] = []
      for (const step of steps) outcomes.push(await end(step, context))
      return outcomes
    } finally {
      this.#trace.push({ kind: 'end', steps: messages.map(({ id }, at) => [id, steps[at]!]), counts })
      if (counts) for (const { id } of messages) this.#next.set(id, (this.#next.get(id) ?? 0) + 1)
    }
  }

  #stepFor({ id, payload }: Message): Step {
    return this.#scripts[Number(payload)]?.[this.#next.get(id) ?? 0] ?? AT_LAST
  }
}

function throws({ end: how }: Step): boolean {
  return how === 'throw' || how === 'broken statement'
}

async function write({ id, queue }: Message, step: Step, { tx, enqueue }: Context): Promise<void> {
  if (step.writes) await tx.query('INSERT INTO effect VALUES ($1, $2::bigint)', [queue, id])
  if (step.enqueues) await enqueue(`${queue}.child`, id)
}

async function end({ end: how, hours, text }: Step, { tx }: Context): Promise<Outcome | undefined> {
  const error = text === '' ? undefined : text
  switch (how) {
    case 'ack':
      return undefined
    case 'throw':
      throw new Error(text)
    case 'broken statement':
      await tx.query('SELECT 1 / 0')
      return undefined
    case 'retry':
      return retryLater(hours === null ? { error } : { after: `${hours}h`, error })
    case 'snooze':
      return snooze({ after: `${hours ?? 1}h` })
    case 'dead letter':
      return deadLetter('as the script says', error)
  }
}
