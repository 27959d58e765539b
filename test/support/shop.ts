import type { Sluice } from '../../src/sluice.ts'
import type { TestDatabase } from './servers/database.ts'
import { put } from './sluice.ts'
import { waitFor } from './wait.ts'

/** What there is to see in a shop on a bad day, and where. */
export interface Shop {
  /** A page of each kind: name and path. */
  readonly pages: readonly (readonly [name: string, path: string])[]
  /** A message that retries, and holds its key. */
  readonly retrying: string
  readonly dead: string
}

/**
 * Fills a database: queues with messages in all states, dead letters, a schedule, a stream whose group is stopped. `word` is part
 * of whatever users can name.
 */
export async function fillShop(sluice: Sluice, word = ''): Promise<Shop> {
  const [retrying = ''] = await fillQueues(sluice, word)
  const [dead = ''] = await fillDead(sluice, word)
  await sluice.operate.schedules.set('nightly-report', {
    cron: '0 3 * * *',
    zone: 'Europe/Berlin',
    queue: 'reports',
    payload: word,
  })
  await sluice.operate.schedules.set('clean-up', { every: '15m', queue: 'reports', payload: word })
  await sluice.operate.schedules.pause('clean-up', { by: `bob${word}`, reason: `until the disk is larger${word}` })
  await fillStream(sluice, word)
  await put(sluice, 'exports', [1, 2, 3, 4, 5, 6, 7, 8], { type: typeOf('export.csv', word) })
  await sluice.claim('exports', { limit: 6, lease: '10m' })
  await sluice.claim('exports', { limit: 1, lease: '2m' })
  await work(sluice, word)
  return {
    pages: [
      ['overview', '/'],
      ['queue', '/queues/orders'],
      ['message', `/queues/orders/messages/${retrying}`],
      ['dead', '/dead'],
      ['dead-message', `/queues/emails/messages/${dead}`],
      ['workers', '/workers'],
      ['claims', '/claims'],
      ['schedules', '/schedules'],
      ['streams', '/streams'],
      ['group', '/streams/shop/groups/billing'],
      ['doctor', '/doctor'],
      ['audit', '/audit'],
    ],
    retrying,
    dead,
  }
}

/** What two workers have done in the last hour: more and more, but for five minutes in which nothing was handled. */
export async function fillHour(database: Pick<TestDatabase, 'sql'>): Promise<void> {
  for (let minute = 0; minute < 60; minute++) {
    if (minute > 30 && minute < 36) continue
    const swing = Math.round(900 + minute * 8 + 260 * Math.sin(minute / 4))
    const times = (ms: number) => ({ maxMs: ms * 9, totalMs: swing * ms, buckets: bucketsAround(ms, swing) })
    const done = (share: number) => ({
      acked: Math.round(swing * share),
      retried: minute % 7 === 0 ? 9 : 0,
      snoozed: 0,
      dead: minute % 20 === 0 ? 2 : 0,
      batches: 40,
      waiting: times(6 + minute / 4),
      handling: times(22),
    })
    await database.sql(
      `INSERT INTO sluice.worker_activity (at, worker_id, number, queues)
       SELECT now() - (59 - $1::integer) * interval '1 minute', w, $1::integer, $2::jsonb FROM generate_series(1, 2) w`,
      [minute, JSON.stringify({ orders: done(1), emails: done(0.4) })],
    )
  }
}

/** What maintenance has found every five minutes: more and more. */
export async function fillBacklogs(database: Pick<TestDatabase, 'sql'>): Promise<void> {
  await database.sql(
    `INSERT INTO sluice.backlog_sample (at, queues, groups)
     SELECT now() - m * interval '5 minutes', jsonb_build_object('orders', jsonb_build_array(30 + 8 * (12 - m), 9000 * (13 - m))),
            jsonb_build_object('shop:billing', jsonb_build_array(12 - m / 2, 30000 * (13 - m)))
     FROM generate_series(0, 12) m`,
  )
}

/** Half of them about as long, one of a hundred eight times as long: see sluice.worker_activity. */
function bucketsAround(ms: number, count: number): Readonly<Record<number, number>> {
  const middle = Math.round((Math.log2(ms) + 10) * 4)
  return { [middle - 2]: count, [middle]: count, [middle + 12]: Math.ceil(count / 40) }
}

async function fillQueues(sluice: Sluice, word: string): Promise<readonly string[]> {
  const { queues } = sluice.operate
  const retry = { kind: 'fixed', delay: '20m' } as const
  const order = (number: number) => ({
    order: number,
    customer: `c-${number % 7}${word}`,
    total: '49.90',
    items: [{ sku: 'A-1', count: 2 }],
  })
  const ids = await put(sluice, 'orders', [1, 2, 3].map(order), {
    type: typeOf('order.paid', word),
    orderingKey: `customer 7${word}`,
    headers: { trace: `4bf92f${word}` },
  })
  const fail = () => Promise.reject(new Error(`The warehouse has not answered: connect ETIMEDOUT 10.0.4.17:443${word}`))
  await sluice.pipeline('orders', { retry }).handle(fail).runOnce()
  await put(
    sluice,
    'orders',
    Array.from({ length: 30 }, (_, at) => order(at)),
    { type: typeOf('order.placed', word) },
  )
  await put(sluice, 'orders', [order(90)], { delay: '2h', type: typeOf('order.remind', word) })
  await queues.settings.set('orders', { maxAttempts: 8, concurrency: 20, history: '7d', rate: { limit: 200 } })
  await put(sluice, 'reports', ['weekly'], { delay: '3d' })
  await put(sluice, 'invoices', [1, 2, 3, 4])
  await queues.pause('invoices', { by: `ada${word}`, reason: `the tax service is down${word}` })
  return ids
}

async function fillDead(sluice: Sluice, word: string): Promise<readonly string[]> {
  const ids = await put(
    sluice,
    'emails',
    Array.from({ length: 8 }, (_, at) => ({ to: `user${at}@example.com${word}` })),
    { type: typeOf('mail.welcome', word) },
  )
  const texts = ['550 no such mailbox user7@example.com', 'connect ECONNREFUSED 10.0.4.2:25']
  const fail = ({ id }: { readonly id: string }) => Promise.reject(new Error(`${texts[Number(id) % 2]}${word}`))
  await sluice.pipeline('emails', { maxAttempts: 1 }).handle(fail).runOnce()
  await put(sluice, 'emails', [1, 2, 3])
  return ids
}

async function fillStream(sluice: Sluice, word: string): Promise<void> {
  await sluice.streams.set('shop', { partitions: 2 })
  await sluice.groups.set('shop', 'billing', { from: 'start', onFailure: 'stop' })
  await sluice.groups.set('shop', 'search', { from: 'start' })
  for (let at = 0; at < 12; at += 1) {
    await sluice.append(sluice.ownTransaction, 'shop', { at, word }, { orderingKey: `customer ${at}` })
  }
  const fail = () => Promise.reject(new Error(`No account for the customer${word}`))
  await sluice.pipeline('shop', { group: 'billing', maxAttempts: 1 }).handle(fail).runOnce()
}

/** A worker has two messages in flight until it is stopped. */
async function work(sluice: Sluice, word: string): Promise<void> {
  await put(sluice, 'thumbnails', [1, 2, 3, 4, 5], { type: typeOf('image.added', word) })
  const pipeline = sluice.pipeline('thumbnails', { concurrency: 2, batchSize: 1 })
  const untilStopped = (signal: AbortSignal) =>
    new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  pipeline.handle((_, { signal }) => untilStopped(signal)).start()
  await waitFor(async () => (await sluice.operate.workers.inFlight({ queue: 'thumbnails' })).length === 2, {
    what: 'two messages in flight',
  })
}

/** Types have no spaces, and at most 255 bytes. */
function typeOf(type: string, word: string): string {
  return `${type}${word.replaceAll(/\s/g, '').slice(0, 120)}`
}
