import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import type { Cell, Measured, SampleContext, Size } from '../cell.ts'

const QUEUES = 100
const SETTLE_MS: Size = { full: 5_000, quick: 1_500 }
const MEASURED_MS: Size = { full: 60_000, quick: 3_000 }

export const idle: Cell = {
  name: 'idle',
  title: '100 idle queues in one process',
  measures:
    'One process waits on 100 queues (graphile-worker: tasks) without messages. After 5 seconds, for 60 seconds, because some look only every 30: the ' +
    'statements that it sends to the server, counted in the driver, and its own processor time as a part of one core',
  metric: { name: 'perSecond', unit: 'statements/s', better: 'less' },
  cases: [{ name: '', fill: () => ({ messages: 0 }), measure: (context) => measure(context, false) }],
  asks: ({ idles }) => idles !== undefined,
  goals: [
    { of: { contestant: 'sluice' }, atMost: 1 },
    { of: { contestant: 'sluice', metric: 'cpuPercent' }, atMost: 1 },
  ],
  mostRounds: 3,
}

const TRANSACTIONAL = 'transactional'
const LEASED = 'leased'

export const leasedIdle: Cell = {
  ...idle,
  name: 'leased-idle',
  title: '100 idle queues in one process, in both modes',
  measures: 'As idle: the statements of a process that waits on 100 queues, in transactional and in leased mode',
  cases: [TRANSACTIONAL, LEASED].map((name) => ({
    name,
    fill: () => ({ messages: 0 }),
    measure: (context) => measure(context, name === LEASED),
  })),
  asks: ({ idles, name }) => idles !== undefined && name === 'sluice',
  goals: [
    {
      of: { contestant: 'sluice', case: LEASED },
      over: { contestant: 'sluice', case: TRANSACTIONAL },
      // The poll varies by a fifth.
      atMost: 1.1,
    },
    { of: { contestant: 'sluice', case: LEASED, metric: 'cpuPercent' }, atMost: 1 },
  ],
  mostRounds: 1,
}

async function measure({ contestant, url, scale }: SampleContext, leased: boolean): Promise<Measured> {
  const { idles, name } = contestant
  if (idles === undefined) throw new Error(`${name} cannot idle`)
  const statements = countStatements()
  const consumer = await idles.run(url, QUEUES, leased)
  await sleep(SETTLE_MS[scale])
  const [from, sent, cpu] = [performance.now(), statements.sent, process.cpuUsage()]
  await sleep(MEASURED_MS[scale])
  const ms = performance.now() - from
  const { user, system } = process.cpuUsage(cpu)
  const metrics = {
    perSecond: ((statements.sent - sent) / ms) * 1_000,
    cpuPercent: ((user + system) / 1_000 / ms) * 100,
  }
  await consumer.stop()
  return { metrics, left: 0 }
}

/** All contestants use the same driver, and all their statements go through this method of it. */
function countStatements(): { readonly sent: number } {
  const counter = { sent: 0 }
  const prototype: { query: (...args: unknown[]) => unknown } = pg.Client.prototype as never
  const { query } = prototype
  prototype.query = function (this: pg.Client, ...args) {
    counter.sent += 1
    return query.apply(this, args)
  }
  return counter
}
