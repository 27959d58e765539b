import { setTimeout as sleep } from 'node:timers/promises'
import { NatsCluster } from '../../faults/environment/nats-cluster.ts'
import { findServer } from '../../server/find-server.ts'
import { createDatabase } from '../create-database.ts'
import { showTable } from '../show-table.ts'
import { openSite } from '../site.ts'
import { type Audit, passed, takeAudit } from './audit.ts'
import { Processes } from './processes.ts'
import { createTables, type Partner, type Tables, takeOrders } from './shop.ts'
import { SharedStream } from './stream.ts'

export interface RelayDemoOptions {
  readonly orders: number
  /** Print one JSON object last, and progress to stderr. */
  readonly json: boolean
}

/**
 * A shop whose orders go out through a relay to a cluster of three NATS servers, and come back through the inbox of a
 * warehouse, which has another database. A relay and a server of the cluster are killed on the way. Returns the exit code: 0 if
 * no order was lost, doubled or out of order.
 */
export async function runRelayDemo({ orders, json }: RelayDemoOptions): Promise<number> {
  const log = json ? process.stderr : process.stdout
  await using stack = new AsyncDisposableStack()
  log.write('Starting three NATS servers and PostgreSQL …\n')
  const cluster = await NatsCluster.start()
  if (cluster === undefined) {
    log.write(MISSING)
    return 1
  }
  stack.defer(() => cluster.stop())
  const server = await findServer()
  stack.defer(() => server.stop())
  const [shop, warehouse] = [await openOwn(server.url, stack), await openOwn(server.url, stack)]
  await createTables(shop.site, warehouse.site)
  const stream = await SharedStream.make(cluster)
  stack.defer(() => stream.close())
  const processes = new Processes()
  stack.defer(() => processes.stop())
  const NATS_URLS = cluster.urls.join()
  const startRelay = () => processes.start('relay', { DATABASE_URL: shop.url, NATS_URLS })
  await processes.start('warehouse', { DATABASE_URL: warehouse.url, NATS_URLS })
  await startRelay()
  const killRelay = await startRelay()
  const startedAt = performance.now()
  const faults: Promise<unknown>[] = []
  const inject = (what: string, kill: () => Promise<() => Promise<unknown>>) => {
    const fault = during(log, what, kill)
    faults.push(fault)
    // It is awaited when all orders are taken. Until then its error would end the process, and leave the servers running.
    fault.catch(() => undefined)
  }
  const taken = takeOrders(shop.site, orders, (placed) => {
    if (placed === Math.ceil(orders / 3)) inject('a server of the cluster', () => stream.killLeader())
    if (placed === Math.ceil(orders / 2)) inject('a relay', () => killRelay().then(() => startRelay))
  })
  await Promise.all([taken, showUntilAll(shop.site, warehouse.site, orders, log)])
  await Promise.all(faults)
  const audit = await takeAudit(shop.site, warehouse.site)
  log.write(summary(audit, await stream.count(), (performance.now() - startedAt) / 1_000))
  if (json) process.stdout.write(`${JSON.stringify(audit)}\n`)
  return passed(audit) ? 0 : 1
}

const MISSING = `The demo needs nats-server on the PATH, and it is not there. Install it with your system's packages
(apt-get install nats-server, brew install nats-server), or from https://nats.io/download.
`

interface OwnSite {
  readonly url: string
  readonly site: Partner
}

async function openOwn(serverUrl: string, stack: AsyncDisposableStack): Promise<OwnSite> {
  const database = await createDatabase(serverUrl)
  stack.defer(() => database.drop())
  const site = openSite<Tables>(database.url)
  stack.defer(() => site.close())
  return { url: database.url, site }
}

/** Says what was killed, and starts it again after a while. */
async function during(
  log: NodeJS.WriteStream,
  what: string,
  kill: () => Promise<() => Promise<unknown>>,
): Promise<void> {
  const startAgain = await kill()
  log.write(`Killed ${what}.\n`)
  await sleep(DOWN_MS)
  await startAgain()
  log.write(`Started ${what} again.\n`)
}

const DOWN_MS = 2_000

/** Shows how far it is, until each order has a parcel, or nothing has changed for a minute. */
async function showUntilAll(shop: Partner, warehouse: Partner, orders: number, log: NodeJS.WriteStream): Promise<void> {
  let [parcels, changedAt] = [0, performance.now()]
  while (parcels < orders && performance.now() - changedAt < LONGEST_MS) {
    const [taken, packed] = [await rowsOf(shop, 'order'), await rowsOf(warehouse, 'parcel')]
    if (packed > parcels) changedAt = performance.now()
    parcels = packed
    log.write(`orders ${taken}/${orders}  parcels ${parcels}\n`)
    if (parcels < orders) await sleep(1_000)
  }
}

const LONGEST_MS = 60_000

async function rowsOf({ db }: Partner, table: 'order' | 'parcel'): Promise<number> {
  const { rows } = await db
    .selectFrom(table)
    .select((of) => of.fn.countAll<string>().as('rows'))
    .executeTakeFirstOrThrow()
  return Number(rows)
}

function summary({ orders, parcels, lost, doubled, outOfOrder }: Audit, stored: number, seconds: number): string {
  const rows: [string, number][] = [
    ['orders committed', orders],
    ['messages in the stream', stored],
    ['parcels packed', parcels],
    ['lost', lost],
    ['doubled', doubled],
    ['out of order', outOfOrder],
  ]
  const verdict = lost + doubled + outOfOrder === 0 ? 'passed' : 'FAILED'
  return `\n${showTable(rows)}\nAudit ${verdict} after ${seconds.toFixed(1)} s.\n`
}
