// What a serverless function does at each call: it claims messages and handles them until its time is nearly over.

import { createSluice, type Message, type Outcome, retryLater } from 'sluice'

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })

/** `leftMs`: how long the platform lets this call run, such as `context.getRemainingTimeInMillis` of AWS Lambda. */
export async function handler(leftMs: () => number): Promise<number> {
  let settled = 0
  while (leftMs() > 15_000) {
    const claim = await sluice.claim('example.thumbnails', { limit: 10, lease: '1m' })
    if (claim === undefined) break
    try {
      for (const message of claim.messages) {
        if (leftMs() < 10_000) return settled
        await claim.settle(message, await outcomeOf(message))
        settled += 1
      }
    } finally {
      await claim.release() // The rest of the claim, without an attempt.
    }
  }
  return settled
}

/** Undefined: handled. */
async function outcomeOf({ payload }: Message): Promise<Outcome | undefined> {
  try {
    console.log('thumbnail of', await resize(payload))
    return undefined
  } catch (error) {
    return retryLater({ error })
  }
}

async function resize(payload: unknown): Promise<string> {
  if (typeof payload !== 'string') throw new TypeError('expected the name of a picture')
  return payload
}

// Two calls by the platform: the first has too little time left.
await sluice.migrate()
const pictures = ['cat.png', 'dog.png', 7, 'owl.png']
const messages = pictures.map((payload) => ({ payload, maxAttempts: 1 }))
await sluice.enqueueMany(sluice.ownTransaction, 'example.thumbnails', messages)
console.log('first call:', await handler(() => 12_000))
console.log('second call:', await handler(() => 60_000))
await sluice.operate.deadLetters.delete({ queue: 'example.thumbnails' })
await sluice.stop()
