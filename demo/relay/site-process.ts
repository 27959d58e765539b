/** One of the demo's processes: `relay`, which publishes the shop's orders, or `warehouse`, which receives and handles them. */
import { once } from 'node:events'
import type { HandlerTransaction, Message } from '../../src/index.ts'
import { fromNats, nats } from '../../src/nats.ts'
import { openSite } from '../site.ts'
import type { OrderPlaced, Tables } from './shop.ts'
import { CONSUMER, STREAM, SUBJECT } from './stream.ts'

const servers = String(process.env.NATS_URLS).split(',')
const site = openSite<Tables>(String(process.env.DATABASE_URL))
/** As short as a demo is. */
const breaker = { delay: '100ms', maxDelay: '1s' } as const

if (process.argv[2] === 'relay') {
  const to = nats({ servers, subject: SUBJECT, stream: STREAM })
  site.sluice.relay('orders', { to, confirmTimeout: '2s', breaker }).start()
} else {
  const from = fromNats({ servers, stream: STREAM, consumer: CONSUMER })
  site.sluice.inbox('orders', { from, breaker }).start()
  site.sluice.pipeline('orders').handle(pack).start()
}
process.send?.('up')
// Without the demo there is nobody to stop it.
await Promise.race([once(process, 'message'), once(process, 'disconnect')])
await site.close()
if (process.connected) process.disconnect()

async function pack({ payload }: Message, { tx }: { readonly tx: HandlerTransaction }): Promise<void> {
  const { orderId, customer } = payload as OrderPlaced
  await tx.query('INSERT INTO parcel ("orderId", customer) VALUES ($1, $2)', [orderId, customer])
}
