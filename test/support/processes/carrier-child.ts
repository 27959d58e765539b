/** The program of a process that relays a queue to NATS, or receives from there, and tells its parent which events it reports. */
import { createSluice } from '../../../src/index.ts'
import { fromNats, nats } from '../../../src/nats.ts'
import type { CarrierSetup } from './carrier-process.ts'

const { role, connection, queue, servers, stream } = JSON.parse(process.argv[2] ?? '') as CarrierSetup
const sluice = createSluice({ connection, log: false })
const breaker = { delay: '50ms', maxDelay: '200ms' } as const

process.on('disconnect', () => process.exit())
sluice.events.subscribe(({ kind }) => process.send?.(kind))

if (role === 'relay') {
  const to = nats({ servers, subject: stream, stream })
  sluice.relay(queue, { to, batchSize: 20, confirmTimeout: '1s', breaker }).start()
} else {
  const from = fromNats({ servers, stream, consumer: 'inbox' })
  sluice.inbox(queue, { from, batchSize: 20, breaker }).start()
}
