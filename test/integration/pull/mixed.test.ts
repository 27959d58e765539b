import { describe, expect } from 'vitest'
import { type Message, retryLater } from '../../../src/message.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { startTestSluice, test } from '../../support/sluice.ts'

const KEYS = 12
const EACH = 25

interface Step {
  readonly key: number
  readonly step: number
}

/** What was handled, by whom, and what must not be: a message while an earlier one of its key is in hand. */
class Witness {
  readonly handled: Step[] = []
  readonly wrong: string[] = []
  readonly by = new Set<string>()
  readonly #inHand = new Map<number, number>()

  async sees(who: string, message: Message): Promise<void> {
    const { key, step } = message.payload as Step
    const other = this.#inHand.get(key)
    if (other !== undefined) this.wrong.push(`${who} has ${key}.${step} beside ${other}`)
    this.#inHand.set(key, step)
    this.by.add(who)
    await new Promise(setImmediate)
    this.#inHand.delete(key)
    this.handled.push({ key, step })
  }
}

describe('claims, and pipelines of both modes, on one queue', () => {
  test('handle each message once, and those of a key in order', async ({ database, queue }) => {
    const witness = new Witness()
    const [claiming, transactional, leased] = Array.from({ length: 3 }, () => startTestSluice(database))
    transactional!
      .pipeline(queue, { concurrency: 2, batchSize: 3 })
      .handle((message) => witness.sees('transactional', message))
      .start()
    leased!
      .pipeline(queue, { mode: 'leased', concurrency: 5 })
      .handle((message) => witness.sees('leased', message))
      .start()
    const over = new AbortController()
    const claims = [1, 2].map(() => claimLoop(claiming!, queue, witness, over.signal))
    let rounds = 0
    do {
      await claiming!.enqueueMany(claiming!.ownTransaction, queue, messagesOf(rounds++))
      await untilEmpty(database, queue, 90_000)
    } while (witness.by.size < 3)
    over.abort()
    await Promise.allSettled(claims)

    expect(witness.wrong).toEqual([])
    for (let key = 0; key < KEYS; key++) {
      const steps = witness.handled.filter((one) => one.key === key).map(({ step }) => step)
      expect(steps).toEqual(Array.from({ length: rounds * EACH }, (_, step) => step))
    }
  })
})

/** The next messages of each key. */
function messagesOf(round: number) {
  return Array.from({ length: KEYS * EACH }, (_, at) => {
    const payload: Step = { key: at % KEYS, step: round * EACH + Math.floor(at / KEYS) }
    return { payload, orderingKey: `key ${payload.key}` }
  })
}

/** Claims, and retries each seventh message once: its key waits. */
async function claimLoop(sluice: Sluice, queue: string, witness: Witness, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const claim = await sluice.claim(queue, { limit: 4, wait: '1m', signal })
    for (const message of claim?.messages ?? []) {
      const { step } = message.payload as Step
      if (step % 7 === 3 && message.attempt === 1) {
        await claim?.settle(message, retryLater({ after: 0 }))
      } else {
        await witness.sees('claim', message)
        await claim?.settle(message)
      }
    }
  }
}
