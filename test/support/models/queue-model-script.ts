import fc from 'fast-check'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
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

/** What a handler of leased mode has instead. */
type Transaction = <T>(work: (context: Context) => Promise<T>) => Promise<T>

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
    const [outcome] = await this.handleBatch([message], context)
    return outcome
  }

  readonly handleBatch = (messages: readonly Message[], context: Context): Promise<(Outcome | undefined)[]> =>
    this.#play(messages, (steps) => playTogether(messages, steps, context))

  /** What a step writes commits together with the end of its message, whatever the handler returns after that. */
  readonly handleLeased = async (message: Message, transaction: Transaction): Promise<Outcome | undefined> => {
    const play = ([step]: readonly Step[]) =>
      step === undefined || !needsTransaction(step)
        ? playTogether([], step === undefined ? [] : [step])
        : transaction((context) => playTogether([message], [step], context))
    const ended = (step: Step): Step => (needsTransaction(step) && !throws(step) ? { ...step, end: 'ack' } : step)
    const [outcome] = await this.#play([message], play, ended)
    return outcome
  }

  /** Writes nothing: its transaction would end all messages of the batch. */
  readonly handleBatchLeased = (
    messages: readonly Message[],
    transaction: Transaction,
  ): Promise<(Outcome | undefined)[]> =>
    this.#play(
      messages,
      (steps) =>
        steps.some(throws) ? transaction((context) => playTogether([], steps, context)) : playTogether([], steps),
      (step) => ({ ...step, writes: false, enqueues: false }),
    )

  /** @param ended what the model is to know of a step: what really comes of it */
  async #play(
    messages: readonly Message[],
    play: (steps: readonly Step[]) => Promise<(Outcome | undefined)[]>,
    ended: (step: Step) => Step = (step) => step,
  ): Promise<(Outcome | undefined)[]> {
    this.#trace.push({ kind: 'start', messages })
    const steps = messages.map((message) => this.#stepFor(message))
    // A call for several messages that throws is followed by one for each.
    const counts = messages.length === 1 || !steps.some(throws)
    try {
      return await play(steps)
    } finally {
      this.#trace.push({ kind: 'end', steps: messages.map(({ id }, at) => [id, ended(steps[at]!)]), counts })
      if (counts) for (const { id } of messages) this.#next.set(id, (this.#next.get(id) ?? 0) + 1)
    }
  }

  #stepFor({ id, payload }: Message): Step {
    return this.#scripts[Number(payload)]?.[this.#next.get(id) ?? 0] ?? AT_LAST
  }
}

/** Steps without messages only end. */
async function playTogether(
  messages: readonly Message[],
  steps: readonly Step[],
  context?: Context,
): Promise<(Outcome | undefined)[]> {
  for (const [at, message] of messages.entries()) if (context) await write(message, steps[at]!, context)
  const outcomes: (Outcome | undefined)[] = []
  for (const step of steps) outcomes.push(await end(step, context))
  return outcomes
}

function needsTransaction({ writes, enqueues, end: how }: Step): boolean {
  return writes || enqueues || how === 'broken statement'
}

function throws({ end: how }: Step): boolean {
  return how === 'throw' || how === 'broken statement'
}

async function write({ id, queue }: Message, step: Step, { tx, enqueue }: Context): Promise<void> {
  if (step.writes) await tx.query('INSERT INTO effect VALUES ($1, $2::bigint)', [queue, id])
  if (step.enqueues) await enqueue(`${queue}.child`, id)
}

async function end({ end: how, hours, text }: Step, context: Context | undefined): Promise<Outcome | undefined> {
  const error = text === '' ? undefined : text
  switch (how) {
    case 'ack':
      return undefined
    case 'throw':
      throw new Error(text)
    case 'broken statement':
      await context?.tx.query('SELECT 1 / 0')
      return undefined
    case 'retry':
      return retryLater(hours === null ? { error } : { after: `${hours}h`, error })
    case 'snooze':
      return snooze({ after: `${hours ?? 1}h` })
    case 'dead letter':
      return deadLetter('as the script says', error)
  }
}
