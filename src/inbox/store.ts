import { codeOf } from '../basics/sql-state.ts'
import { wordsOf } from '../basics/words-of.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { isSluiceError } from '../errors.ts'
import { bareLetterOf } from './body.ts'
import type { Incoming } from './incoming.ts'
import type { InboxPlan } from './options.ts'
import { type Stored, storeBatch } from './store-batch.ts'

/**
 * Stores the messages of a batch: in one transaction, or, if the server refuses what one of them says, each in a transaction
 * of its own, and that one as a dead letter.
 *
 * @throws whatever says nothing about a message: nothing is stored, or the messages that came first
 */
export async function store(context: EnqueueContext, plan: InboxPlan, batch: readonly Incoming[]): Promise<Stored> {
  try {
    return await storeBatch(context, plan, batch)
  } catch (error) {
    if (!isOfContent(error)) throw error
  }
  let all: Stored = { enqueued: 0, duplicates: 0, letters: [] }
  for (const one of batch) {
    const stored = await storeAlone(context, plan, one)
    all = {
      enqueued: all.enqueued + stored.enqueued,
      duplicates: all.duplicates + stored.duplicates,
      letters: [...all.letters, ...stored.letters],
    }
  }
  return all
}

/** As it is; else as a dead letter, which has its receipt; else without one, because it may be its id that is refused. */
async function storeAlone(context: EnqueueContext, plan: InboxPlan, one: Incoming): Promise<Stored> {
  const { received, key } = one
  try {
    return await storeBatch(context, plan, [one])
  } catch (error) {
    if (!isOfContent(error)) throw error
    const content = { kind: 'letter', letter: bareLetterOf(received, wordsOf(error)) } as const
    return storeBatch(context, plan, [{ received, key, content }]).catch((next: unknown) => {
      if (!isOfContent(next)) throw next
      return storeBatch(context, plan, [{ received, key: undefined, content }])
    })
  }
}

/** Whether it says that a message cannot be stored, and never can be. */
function isOfContent(error: unknown): boolean {
  if (isSluiceError(error)) return ['PAYLOAD_INVALID', 'PAYLOAD_TOO_LARGE', 'OPTION_INVALID'].includes(error.code)
  return OF_CONTENT.test(codeOf(error) ?? '')
}

/** Data, constraints, limits of the server's parser, and what a trigger of the application's raises. */
const OF_CONTENT = /^(22|23|54|P0001)/
