/**
 * A worker process beside the sample's own: started by `listener.ts`, it consumes what the sample enqueues, as another
 * process of the application would, and tells at the end what it has handled, and when.
 */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { loadContestant } from '../contestants/index.ts'
import type { ListenerOrder, ListenerReport } from './listener.ts'
import { monotonicMs } from './monotonic.ts'

const [order] = (await once(process, 'message')) as [ListenerOrder]
const { listens } = await loadContestant(order.contestant)
if (listens === undefined) throw new Error(`${order.contestant} cannot listen`)

const startedMs: [number, number][] = []
let settled = 0
const consumer = await listens.run(order.url, {
  batchSize: order.batchSize,
  inFlight: order.inFlight ?? 1,
  atOnce: order.atOnce,
  handle: async ({ n }) => {
    if (order.keepStarts) startedMs.push([n, monotonicMs()])
    if (order.workMs > 0) await sleep(order.workMs)
  },
  onSettled: (messages) => {
    settled += messages
  },
})
process.send?.('listening')
// Told to stop, or nobody is there any more.
await Promise.race([once(process, 'message'), once(process, 'disconnect')])
await consumer.stop()
const report: ListenerReport = { settled, startedMs }
if (process.connected) process.send?.(report, () => process.exit())
else process.exit()
