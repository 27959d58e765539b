import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kysely, sql } from 'kysely'
import { serveDashboard } from '../packages/dashboard/src/index.ts'
import { findServer } from '../server/find-server.ts'
import { type Audit, passed, takeAudit } from './audit.ts'
import { createDatabase } from './create-database.ts'
import { MailService } from './mail-service.ts'
import { takeOrders } from './order-service.ts'
import { createProgress, progressIntervalMs } from './progress.ts'
import { createTables, type Shop, type ShopDatabase } from './shop.ts'
import { showTable } from './show-table.ts'
import { openSite } from './site.ts'
import { WorkerPool } from './worker-pool.ts'

export interface DemoOptions {
  /** How many orders to take. @default 1000 */
  readonly orders?: number | undefined
  /** Print one JSON object last, and progress to stderr. */
  readonly json: boolean
  /** Serve the page, and leave the shop running until a signal. */
  readonly dashboard: boolean
}

const WORKERS = 3

/**
 * Runs a small shop on Sluice: an order service, three worker processes, a mail service, a report, failures, a poison message
 * and a killed worker; then lets SQL judge. Returns the exit code: 0 if nothing was lost, doubled, out of order or misreported.
 */
export async function runDemo({ orders = 1_000, json, dashboard }: DemoOptions): Promise<number> {
  const log = json ? process.stderr : process.stdout
  log.write('Starting PostgreSQL …\n')
  const server = await findServer()
  const database = await createDatabase(server.url)
  const shop = openSite<ShopDatabase>(database.url)
  const mails = await MailService.start(shop.db)
  const workers = new WorkerPool({ DATABASE_URL: database.url, MAIL_URL: mails.url })
  try {
    await createTables(shop)
    await workers.start(WORKERS)
    await using page = dashboard ? await serveDashboard(shop.sluice, { user: 'demo' }) : undefined
    if (page !== undefined) log.write(`The page is at ${page.url}\n`)
    const startedAt = performance.now()
    await trade({ shop, workers, orders, log })
    const seconds = (performance.now() - startedAt) / 1_000
    const audit = await takeAudit(shop.db)
    print(audit, seconds, log)
    if (json) process.stdout.write(`${JSON.stringify(rounded(audit))}\n`)
    if (page !== undefined) await untilSignal(page.url, database.url, log)
    return passed(audit) ? 0 : 1
  } finally {
    await workers.stop()
    await mails.stop()
    await shop.close()
    await database.drop()
    await server.stop()
  }
}

/** The workers go on, so that what is redriven or enqueued on the page is handled. */
async function untilSignal(page: string, databaseUrl: string, log: NodeJS.WriteStream): Promise<void> {
  log.write(`The shop stays open until Ctrl-C: ${page}\n`)
  log.write(`For the command line, in another terminal: DATABASE_URL='${shown(databaseUrl)}' npx sluice status\n`)
  await Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')])
}

/** A password that the user has given is not shown. */
function shown(databaseUrl: string): string {
  const url = new URL(databaseUrl)
  if (process.env.DATABASE_URL !== undefined && url.password !== '') url.password = '***'
  return url.href
}

interface Trade {
  readonly shop: Shop
  readonly workers: WorkerPool
  readonly orders: number
  readonly log: NodeJS.WriteStream
}

/** Takes the orders, kills a worker on the way, and waits until all messages and events are handled or dead. */
async function trade({ shop, workers, orders, log }: Trade): Promise<void> {
  const progress = createProgress(log)
  let taken = 0
  let allTaken = false
  let killing: Promise<void> | undefined
  const service = takeOrders(shop, {
    orders,
    durationMs: Math.min(15_000, orders * 6),
    onOrder: () => {
      taken += 1
      if (taken === Math.ceil(orders / 2)) killing = workers.killOneAtWork()
    },
  }).then(() => {
    allTaken = true
  })
  for (let over = false; !over; ) {
    // Asked before the count: an order that comes in between is not in it.
    const closed = allTaken
    const waiting = await countWaiting(shop.db)
    const { handled, dead } = await countHandled(shop.db)
    over = closed && waiting === 0
    progress.show({
      orders: taken,
      ordersWanted: orders,
      handled,
      waiting,
      workers: workers.running,
      killed: workers.killed,
      dead,
    })
    if (!over) await Promise.race([sleep(progressIntervalMs(log)), failureOf(service)])
  }
  await Promise.all([service, killing])
  progress.done()
}

/** Rejects when the promise does, and otherwise never ends. */
function failureOf(promise: Promise<unknown>): Promise<never> {
  return new Promise((_, reject) => {
    promise.catch(reject)
  })
}

async function countWaiting(db: Kysely<ShopDatabase>): Promise<number> {
  const { rows } = await sql<{ waiting: number }>`
    SELECT (SELECT coalesce(sum(ready + scheduled + retrying + in_flight), 0) FROM ${sql.table('sluice.queues')})::integer
         + (SELECT coalesce(sum(unread), 0) FROM ${sql.table('sluice.groups')})::integer AS waiting`.execute(db)
  return rows[0]?.waiting ?? 0
}

async function countHandled(db: Kysely<ShopDatabase>): Promise<{ handled: number; dead: number }> {
  const { rows } = await sql<{ handled: number; dead: number }>`
    SELECT (SELECT count(*) FROM effect)::integer AS handled,
           (SELECT count(*) FROM ${sql.table('sluice.dead_letters')})::integer AS dead`.execute(db)
  return rows[0] ?? { handled: 0, dead: 0 }
}

function print(audit: Audit, seconds: number, log: NodeJS.WriteStream): void {
  const rows: [string, string | number][] = [
    ['orders committed', audit.orders],
    ['messages enqueued', audit.enqueued],
    ['messages handled', audit.handled],
    ['effects written', audit.effects],
    ['mails sent', audit.mails],
    ['mails asked for again', audit.askedAgain],
    ['lost', audit.lost],
    ['duplicated', audit.duplicated],
    ['out of order', audit.outOfOrder],
    ['retried', audit.retried],
    ['dead-lettered', audit.deadLettered],
    ['orders in the report', audit.reported],
    ['products misreported', audit.misreported],
    ['throughput', `${Math.round(audit.handled / seconds)}/s`],
    ['latency p50', `${audit.p50Ms.toFixed(1)} ms`],
    ['latency p99', `${audit.p99Ms.toFixed(1)} ms`],
  ]
  const verdict = passed(audit) ? 'passed' : 'FAILED'
  const agrees = audit.misreported === 0 ? 'agrees' : 'does not agree'
  log.write(
    `\n${showTable(rows)}\nAudit ${verdict}: lost ${audit.lost}, duplicated ${audit.duplicated}, the report ${agrees} with the orders. Taken by SQL after ${seconds.toFixed(1)} s.\n`,
  )
}

function rounded({ outOfOrder: _, ...audit }: Audit): Omit<Audit, 'outOfOrder'> {
  return { ...audit, p50Ms: Math.round(audit.p50Ms * 10) / 10, p99Ms: Math.round(audit.p99Ms * 10) / 10 }
}
