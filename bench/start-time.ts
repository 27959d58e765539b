/**
 * How long a process takes from its start to its first handled message, and to import the library, beside pg-boss: each in a
 * process of its own, by turns, and processor time beside the time on the clock, because that is what other work on the machine does
 * not change so much. What was taken is noted when the handler is called, and the process then stops as it should: one that
 * ended there would leave a message behind, and evidence of a crash that the next process looks into before it handles any.
 *
 * npm run build && node bench/start-time.ts [rounds]
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { PgBoss } from 'pg-boss'
import { findServer } from '../server/find-server.ts'
import { createSluice } from '../src/index.ts'
import { percentile } from './statistics.ts'

const SLUICE = new URL('../dist/index.js', import.meta.url).href
const PG_BOSS = import.meta.resolve('pg-boss')

const TAKE = `
  const { user, system } = process.cpuUsage()
  const taken = { clockMs: performance.now(), processorMs: (user + system) / 1000 }`

const REPORT = `
  console.log(JSON.stringify(taken))
  process.exit()`

const PROGRAMS = {
  sluice: `
  const { createSluice } = await import(${JSON.stringify(SLUICE)})
  const sluice = createSluice({ connection: process.env.DATABASE_URL, log: false })
  const handled = Promise.withResolvers()
  sluice.pipeline('start').handle(async () => handled.resolve()).start()
  await handled.promise${TAKE}
  await sluice.stop()${REPORT}`,
  'pg-boss': `
  const { PgBoss } = await import(${JSON.stringify(PG_BOSS)})
  const boss = new PgBoss({ connectionString: process.env.DATABASE_URL, migrate: false, supervise: false, schedule: false })
  await boss.start()
  const handled = Promise.withResolvers()
  await boss.work('start', async () => handled.resolve())
  await handled.promise${TAKE}
  await boss.stop()${REPORT}`,
  // With what it does by default beside its jobs, as Sluice does: it looks for migrations, supervises its queues and keeps schedules.
  'pg-boss, as it comes': `
  const { PgBoss } = await import(${JSON.stringify(PG_BOSS)})
  const boss = new PgBoss(process.env.DATABASE_URL)
  await boss.start()
  const handled = Promise.withResolvers()
  await boss.work('start', async () => handled.resolve())
  await handled.promise${TAKE}
  await boss.stop()${REPORT}`,
  'sluice, import': `await import(${JSON.stringify(SLUICE)})${TAKE}${REPORT}`,
  'pg-boss, import': `await import(${JSON.stringify(PG_BOSS)})${TAKE}${REPORT}`,
  'Node alone': `${TAKE}${REPORT}`,
} as const

interface Taken {
  readonly clockMs: number
  readonly processorMs: number
}

const rounds = Number(process.argv[2] ?? 20)
const server = await findServer({ inMemory: true })
const sluice = createSluice({ connection: server.url, log: false })
const boss = new PgBoss(server.url)
try {
  await sluice.migrate()
  await boss.start()
  await boss.createQueue('start')
  const taken = new Map<string, Taken[]>(Object.keys(PROGRAMS).map((name) => [name, []]))
  for (let round = 0; round < rounds; round++) {
    const programs = Object.entries(PROGRAMS)
    for (const [name, program] of round % 2 === 0 ? programs : programs.toReversed()) {
      if (name === 'sluice') await sluice.enqueue(sluice.ownTransaction, 'start', null)
      if (name === 'pg-boss' || name === 'pg-boss, as it comes') await boss.send('start', {})
      taken.get(name)?.push(await run(program))
    }
  }
  for (const [name, samples] of taken) {
    const median = (of: (sample: Taken) => number) => Math.round(percentile(samples.map(of), 50))
    console.log(name, { clockMs: median(({ clockMs }) => clockMs), processorMs: median((one) => one.processorMs) })
  }
} finally {
  await Promise.all([sluice.stop(), boss.stop()])
  await server.stop()
}

async function run(program: string): Promise<Taken> {
  const env = { ...process.env, DATABASE_URL: server.url }
  const args = ['--input-type=module', '--eval', program]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env })
  return JSON.parse(stdout)
}
