// Messages of three versions in one queue, and a handler that reads two of them.

import { createSluice, type Message } from 'sluice'
import { runDue } from 'sluice/testing'
import { z } from 'zod'

const V1 = z.object({ name: z.string() })
const V2 = z.object({ first: z.string(), last: z.string() })

function customerOf({ schemaVersion, payload }: Message): z.output<typeof V2> {
  if (schemaVersion === 2) return V2.parse(payload)
  if (schemaVersion > 2) throw new Error(`expected version 1 or 2, received ${schemaVersion}: a newer worker reads it`)
  const [first = '', ...last] = V1.parse(payload).name.split(' ')
  return { first, last: last.join(' ') }
}

const sluice = createSluice({ connection: process.env.DATABASE_URL ?? '' })
await sluice.migrate()
const welcome = sluice.pipeline('example.welcome').handle((message: Message) => {
  const { first, last } = customerOf(message)
  console.log(`version ${message.schemaVersion}: ${last}, ${first}`)
})

const { ownTransaction } = sluice
await sluice.enqueue(ownTransaction, 'example.welcome', { name: 'Ada Lovelace' })
await sluice.enqueue(ownTransaction, 'example.welcome', { first: 'Grace', last: 'Hopper' }, { schemaVersion: 2 })
await sluice.enqueue(ownTransaction, 'example.welcome', { person: 7 }, { schemaVersion: 3 })
const outcomes = (await runDue(welcome)).map(({ outcome }) => outcome.kind)
console.log(outcomes.join(', '))

await sluice.operate.queues.clear('example.welcome')
await sluice.stop()
