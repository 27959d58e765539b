import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import type { HandlerTransaction } from '../../src/handle/transaction/handler-transaction.ts'
import { deadLetter, type Message, type Outcome, retryLater, snooze } from '../../src/message.ts'

/** How one call of a handler ends. */
const FAILURES = ['retry', 'throw', 'broken statement'] as const
const UNFINISHED = [...FAILURES, 'snooze'] as const
const ENDS = ['ack', 'ack', 'dead letter'] as const
export type Ending = (typeof UNFINISHED)[number] | (typeof ENDS)[number]

/** A message, and how its calls end, one after the other. */
export interface Scripted {
  readonly key: string | null
  readonly priority: number
  readonly maxAttempts: number | undefined
  readonly script: readonly Ending[]
}

export const scripted: fc.Arbitrary<Scripted> = fc.record({
  key: fc.constantFrom(null, null, 'a', 'b', 'c'),
  priority: fc.constantFrom(5, 5, 0, 9),
  maxAttempts: fc.constantFrom(undefined, undefined, 1, 2),
  script: fc
    .tuple(fc.array(fc.constantFrom(...UNFINISHED), { maxLength: 3 }), fc.constantFrom(...ENDS))
    .map(([unfinished, end]) => [...unfinished, end]),
})

/** What should become of a message. */
export interface Fate {
  /** The attempt that each call should see. */
  readonly attempts: readonly number[]
  /** How many of its calls should leave an effect in the database. */
  readonly effects: number
  /** The attempts that its dead letter should show; undefined if it is acked. */
  readonly diesAt: number | undefined
}

export function fateOf({ script, maxAttempts }: Scripted, mostAttempts: number): Fate {
  const most = maxAttempts ?? mostAttempts
  const attempts: number[] = []
  let failed = 0
  let effects = 0
  for (const ending of script) {
    attempts.push(failed + 1)
    if (ending === 'ack') return { attempts, effects: effects + 1, diesAt: undefined }
    if (ending === 'dead letter') return { attempts, effects, diesAt: failed + 1 }
    if (ending === 'snooze') effects += 1
    else failed += 1
    if (failed >= most) return { attempts, effects, diesAt: failed }
  }
  throw new Error('a script ends with an ack or a dead letter')
}

/** One call of the handler. */
export interface Call {
  readonly at: number
  readonly attempt: number
}

/** Plays the messages' scripts, keeps what was called, and leaves an effect of each call in the transaction. */
export class Player {
  readonly calls: Call[] = []
  running = 0
  mostRunning = 0
  readonly #messages: readonly Scripted[]

  constructor(messages: readonly Scripted[]) {
    this.#messages = messages
  }

  /** Of the message at this place. */
  callsOf(at: number): readonly Call[] {
    return this.calls.filter((call) => call.at === at)
  }

  readonly handle = async (
    message: Message,
    { tx }: { readonly tx: HandlerTransaction },
  ): Promise<Outcome | undefined> => {
    const at = Number(message.payload)
    const ending = this.#messages[at]?.script[this.callsOf(at).length]
    this.calls.push({ at, attempt: message.attempt })
    this.running += 1
    this.mostRunning = Math.max(this.mostRunning, this.running)
    try {
      if (this.calls.length % 3 === 0) await sleep(this.calls.length % 4)
      await tx.query('INSERT INTO effect VALUES ($1::bigint)', [message.id])
      return await this.#end(ending, tx)
    } finally {
      this.running -= 1
    }
  }

  async #end(ending: Ending | undefined, tx: HandlerTransaction): Promise<Outcome | undefined> {
    switch (ending) {
      case 'ack':
        return undefined
      case 'retry':
        return retryLater({ after: 0 })
      case 'snooze':
        return snooze({ after: 0 })
      case 'dead letter':
        return deadLetter('as the script says')
      case 'broken statement':
        await tx.query('SELECT 1 / 0')
        return undefined
      default:
        throw new Error(ending ?? 'called more often than the script says')
    }
  }
}
