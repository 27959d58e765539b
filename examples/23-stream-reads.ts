// Three more ways to read a stream: deliveries of a group, which the loop settles; a dead letter that is redriven; and events
// without a group, as an Observable.

import { lastValueFrom, map, toArray } from 'rxjs'
import { createSluice, queueOf } from 'sluice'

interface Reading {
  readonly sensor: string
  readonly celsius: number | null
}

const sluice = createSluice({
  connection: process.env.DATABASE_URL ?? '',
  log: false,
  streams: { 'example.readings': queueOf<Reading>() },
})
await sluice.migrate()
const STREAM = 'example.readings'
await sluice.streams.set(STREAM)
await sluice.groups.set(STREAM, 'alarm', { from: 'end' })

const readings = [
  { sensor: 'roof', celsius: 21 },
  { sensor: 'cellar', celsius: null },
  { sensor: 'roof', celsius: 35 },
]
const positions = await sluice.appendMany(
  sluice.ownTransaction,
  STREAM,
  readings.map((payload) => ({ payload, orderingKey: payload.sensor })),
)

// Each delivery holds its place in the demand until it is settled.
let settled = 0
const settledAll = Promise.withResolvers<void>()
sluice.events.subscribe((event) => {
  if (event.kind !== 'batch.committed') return
  settled += event.acked + event.dead
  if (settled === readings.length) settledAll.resolve()
})
const deliveries = sluice.deliveries(STREAM, { group: 'alarm', demand: 1 }).subscribe((delivery) => {
  const { payload, position } = delivery.message
  if (payload.celsius === null) delivery.deadLetter('no value')
  else if (delivery.ack())
    console.log(`${position - (positions[0] ?? 0) + 1}: ${payload.celsius} on the ${payload.sensor}`)
})
await settledAll.promise
deliveries.unsubscribe()

// Somebody has looked at it: the dead letters of a group are those of its queue.
const queue = `${STREAM}:alarm` as const
console.log(`redriven: ${await sluice.operate.deadLetters.redrive({ queue })}`)
const again = await sluice
  .pipeline(STREAM, { group: 'alarm' })
  .handle(({ payload }) => console.log(`again: ${payload.sensor}`))
  .runOnce()
console.log(`handled again: ${again.counts.acked}`)

const from = { position: positions[0] ?? 1 }
const sensors = sluice.streams.read(STREAM, { from }).pipe(
  map(({ payload }) => payload.sensor),
  toArray(),
)
console.log((await lastValueFrom(sensors)).join(', '))
await sluice.stop()
