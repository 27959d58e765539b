import { codeOf } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { isSluiceError } from '../errors.ts'
import type { BuriedMessage } from '../table/receipt/receive.ts'
import { bareLetterOf, letterOf } from './body.ts'
import type { Incoming } from './incoming.ts'
import type { InboxPlan } from './options.ts'
import { type Stored, storeBatch } from './store-batch.ts'

/**
 * Stores the messages of a batch, in as many tries as it takes: in one transaction, or, if the server refuses what one of them
 * says, each in a transaction of its own, and that one as a dead letter.
 */
export class BatchStore {
  readonly #context: EnqueueContext
  readonly #plan: InboxPlan
  /** What is not stored yet. */
  #rest: readonly Incoming[]
  #stored: Stored = { enqueued: 0, duplicates: 0, letters: [] }

  constructor(context: EnqueueContext, plan: InboxPlan, batch: readonly Incoming[]) {
    this.#context = context
    this.#plan = plan
    this.#rest = batch
  }

  /** What has become of those that are stored. */
  get stored(): Stored {
    return this.#stored
  }

  /** @throws whatever says nothing about a message: another call goes on behind the messages that are stored */
  async run(): Promise<void> {
    try {
      this.#add(await storeBatch(this.#context, this.#plan, this.#rest), this.#rest.length)
    } catch (error) {
      if (!isOfContent(error)) throw error
    }
    for (let one = this.#rest[0]; one !== undefined; one = this.#rest[0])
      this.#add(await storeAlone(this.#context, this.#plan, one), 1)
  }

  #add({ enqueued, duplicates, letters }: Stored, messages: number): void {
    this.#rest = this.#rest.slice(messages)
    this.#stored = {
      enqueued: this.#stored.enqueued + enqueued,
      duplicates: this.#stored.duplicates + duplicates,
      letters: [...this.#stored.letters, ...letters],
    }
  }
}

async function storeAlone(context: EnqueueContext, plan: InboxPlan, one: Incoming): Promise<Stored> {
  let refusal: unknown
  for (const form of FORMS) {
    try {
      return await storeBatch(context, plan, [form(one, refusal)])
    } catch (error) {
      if (!isOfContent(error)) throw error
      refusal ??= error
    }
  }
  throw refusal
}

/** What is tried with a message: each form leaves out more of what the server may have refused. */
const FORMS: readonly ((one: Incoming, refusal: unknown) => Incoming)[] = [
  (one) => one,
  (one, refusal) =>
    one.content.kind === 'letter' ? one : buried(one, letterOf(one.received, wordsOf(refusal), one.content.row)),
  (one, refusal) => buried(one, bareLetterOf(one.received, wordsOf(refusal))),
  // Without a receipt, because it may be its id that is refused.
  (one, refusal) => ({ ...buried(one, bareLetterOf(one.received, wordsOf(refusal))), key: undefined }),
]

function buried({ received, key }: Incoming, letter: BuriedMessage): Incoming {
  return { received, key, content: { kind: 'letter', letter } }
}

/** Whether it says that a message cannot be stored, and never can be. */
function isOfContent(error: unknown): boolean {
  if (isSluiceError(error)) return ['PAYLOAD_INVALID', 'PAYLOAD_TOO_LARGE', 'OPTION_INVALID'].includes(error.code)
  return OF_CONTENT.test(codeOf(error) ?? '')
}

/** Data, constraints, limits of the server's parser, and what a trigger of the application's raises. */
const OF_CONTENT = /^(22|23|54|P0001)/
