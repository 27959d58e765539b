/**
 * A process that is to die: started by `crash.ts`, it takes messages under leases, its handlers never end, and it tells how
 * many it has in hand.
 */
import { once } from 'node:events'
import { loadContestant } from '../contestants/index.ts'
import type { HolderOrder } from './crash.ts'

const [order] = (await once(process, 'message')) as [HolderOrder]
const { leases } = await loadContestant(order.contestant)
if (leases === undefined) throw new Error(`${order.contestant} has no leases`)
let inHand = 0
const never = new Promise<void>(() => undefined)
await leases.run(order.url, {
  batchSize: 100,
  inHand: order.messages,
  onSettled: () => undefined,
  handle: () => {
    inHand += 1
    if (inHand === order.messages) process.send?.('all in hand')
    return never
  },
})
// Nobody is there any more.
await once(process, 'disconnect')
process.exit()
