// Messages with the same ordering key are handled one at a time, in order; other keys go on beside them.

import { createSluice, type Message } from 'sluice'

interface Step {
  readonly customer: string
  readonly step: number
}

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })
await sluice.migrate()

const seen = new Map<string, string[]>()
const allHandled = Promise.withResolvers<void>()
let handled = 0

sluice
  .pipeline('example.steps', { concurrency: 4, batchSize: 5, retry: { kind: 'fixed', delay: '200ms' } })
  .handle((message: Message, { attempt }) => {
    const { customer, step } = message.payload as Step
    // A message that fails holds its own key until it succeeds or dies, and no other.
    if (customer === 'Ada' && step === 2 && attempt < 3) {
      note(customer, `${step} failed`)
      throw new Error('Not yet')
    }
    note(customer, String(step))
    handled += 1
    if (handled === 9) allHandled.resolve()
  })
  .start()

const steps = ['Ada', 'Grace', 'Edsger'].flatMap((customer) => [1, 2, 3].map((step) => ({ customer, step })))
await sluice.enqueueMany(
  sluice.ownTransaction,
  'example.steps',
  steps.map((payload) => ({ payload, orderingKey: payload.customer })),
)
await allHandled.promise
await sluice.stop()

for (const [customer, happened] of [...seen].sort()) console.log(`${customer}: ${happened.join(', ')}`)

function note(customer: string, what: string): void {
  seen.set(customer, [...(seen.get(customer) ?? []), what])
}
