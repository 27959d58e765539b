/**
 * One of many worker processes on one queue: started by `many.ts`, it waits until all are loaded, consumes until it is
 * told to stop, and tells now and then how many messages it has settled.
 */
import { once } from 'node:events'
import { loadContestant } from '../contestants/index.ts'
import type { ConsumerOrder, ConsumerReport } from './many.ts'

/** Often enough for a window of seconds. */
const EVERY_MS = 50

const [order] = (await once(process, 'message')) as [ConsumerOrder]
const { consumes } = await loadContestant(order.contestant)
if (consumes === undefined) throw new Error(`${order.contestant} cannot consume`)
await tell({ settled: 0 })
await once(process, 'message')

let settled = 0
const { batchSize, inFlight } = order
const onSettled = (messages: number) => {
  settled += messages
}
const consumer = await consumes.run(order.url, { batchSize, inFlight, work: 'nothing', onSettled })
const telling = setInterval(() => tell({ settled }), EVERY_MS)
// Told to stop, or nobody is there any more.
await Promise.race([once(process, 'message'), once(process, 'disconnect')])
clearInterval(telling)
await consumer.stop()
await tell({ settled })
process.exit()

async function tell(report: ConsumerReport): Promise<void> {
  if (process.connected) await new Promise((resolve) => process.send?.(report, resolve))
}
