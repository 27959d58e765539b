/** For `sluice work`: what each message's payload asks for, and an effect per message that is handled. */
import { setTimeout as sleep } from 'node:timers/promises'
import { defineWorker } from '../../../src/index.ts'

interface Payload {
  readonly ms?: number
  readonly next?: string
  readonly fail?: true
}

// Something else of the application keeps the process alive.
setInterval(() => undefined, 1_000)

export const worker = defineWorker({
  jobs: {
    mode: 'transactional',
    // Nothing is due again while a slow process works.
    retry: { kind: 'fixed', delay: '1h' },
    handle: async ({ id, payload }, { tx, enqueue, signal }) => {
      const { ms, next, fail } = payload as Payload
      await tx.query('INSERT INTO effect (message_id) VALUES ($1)', [id])
      process.stdout.write(`handles ${id}\n`)
      if (next !== undefined) await enqueue(next, {})
      if (ms !== undefined) await sleep(ms, undefined, { signal })
      if (fail) throw new Error('failed on purpose')
    },
  },
  more: {
    mode: 'leased',
    concurrency: 3,
    handle: async ({ id, payload }, { transaction, signal }) => {
      process.stdout.write(`handles ${id}\n`)
      const { ms } = payload as Payload
      if (ms !== undefined) await sleep(ms, undefined, { signal })
      await transaction((tx) => tx.query('INSERT INTO effect (message_id) VALUES ($1)', [id]))
    },
  },
})
