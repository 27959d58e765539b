/** For `sluice work`: a group of a stream, with an effect per event that is handled, and a queue beside it. */
import { ack, createSluice, deadLetter, defineWorker, queueOf } from '../../../src/index.ts'

interface Order {
  readonly id: number
}

const sluice = createSluice({
  connection: process.env.DATABASE_URL ?? '',
  queues: { jobs: {} },
  streams: { orders: queueOf<Order>() },
})

export const worker = defineWorker(sluice, {
  jobs: async () => undefined,
  'orders:billing': {
    mode: 'group',
    retry: { kind: 'fixed', delay: 0 },
    handle: async ({ payload, attempt }, { tx }) => {
      if (payload.id === 0) return deadLetter('not an order')
      if (payload.id === 2 && attempt === 1) throw new Error('failed on purpose')
      await tx.query('INSERT INTO effect (message_id) VALUES ($1)', [payload.id])
      process.stdout.write(`billed ${payload.id}\n`)
      return ack()
    },
  },
})
