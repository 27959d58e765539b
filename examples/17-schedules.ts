// Schedules: each occurrence once, although two processes look after them; a run on demand, and a pause.

import { createSluice } from 'sluice'

const connection = process.env.DATABASE_URL ?? ''
const sluice = createSluice({ connection, log: false, pollInterval: '100ms' })
const other = createSluice({ connection, log: false, pollInterval: '100ms' })
await sluice.migrate()

// Each process defines its schedules when it starts. The second one finds this one as it wants it.
const every = { every: '1s', queue: 'example.ticks', payload: { from: 'the schedule' } } as const
const outcomes = [await sluice.schedules.set('example-ticks', every), await other.schedules.set('example-ticks', every)]
console.log(outcomes.map(({ outcome }) => outcome).join(', '))

const times = new Set<string>()
let handled = 0
const { promise: enough, resolve } = Promise.withResolvers<void>()
const pipeline = sluice
  .pipeline('example.ticks')
  .handle(({ headers }) => {
    handled += 1
    times.add(String(headers.scheduledFor))
    if (times.size === 2) resolve()
  })
  .start()
await other.start()
await enough
await sluice.schedules.pause('example-ticks', { reason: 'seen enough' })
await pipeline.drain()
console.log(handled === times.size ? 'each occurrence once' : `${handled} messages for ${times.size} occurrences`)

// Paused, it still runs on demand.
const id = await sluice.schedules.runNow('example-ticks')
const left = await sluice.pop('example.ticks', { limit: 10 })
const status = await sluice.schedules.get('example-ticks')
console.log(`on demand: ${left.some((message) => message.id === id)}, paused: ${status?.paused?.reason}`)

// 02:30 does not exist in Berlin on one day of the year, and exists twice on another. It comes once on each.
await sluice.schedules.set('example-berlin', {
  cron: '30 2 * * *',
  zone: 'Europe/Berlin',
  queue: 'example.ticks',
  payload: {},
})
const [tonight, , last] = await sluice.schedules.next('example-berlin', 3)
console.log(
  `three nights: ${Math.round((Number(last) - Number(tonight)) / 86_400_000)} days between the first and the last`,
)

for (const name of ['example-ticks', 'example-berlin']) await sluice.schedules.delete(name)
await Promise.all([sluice.stop(), other.stop()])
