// The handlers of example 18, for `sluice work examples/18-work/handlers.ts`.

import { defineWorker, retryLater } from 'sluice'

export const worker = defineWorker({
  // In the message's transaction: what it writes through tx is there exactly once.
  'work.signup': async ({ payload }, { tx, enqueue }) => {
    const { name } = payload as { name: string }
    await tx.query('INSERT INTO example_member (name) VALUES ($1)', [name])
    await enqueue('work.letter', { name })
  },
  // In leased mode: no transaction is open while it calls another service.
  'work.letter': {
    mode: 'leased',
    concurrency: 20,
    handle: async ({ payload }, { attempt }) => {
      const { name } = payload as { name: string }
      if (name === 'Grace' && attempt === 1) return retryLater({ after: 0 })
      process.stdout.write(`a letter to ${name}, try ${attempt}\n`)
      return undefined
    },
  },
})
