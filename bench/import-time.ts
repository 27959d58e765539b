/**
 * How long it takes to import the compiled library, beside pg-boss: each in a process of its own, by turns, and processor
 * time beside the time on the clock, because that is what other work on the machine does not change so much.
 *
 * npm run build && node bench/import-time.ts [rounds]
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { percentile } from './statistics.ts'

const NAMES = ['sluice', 'pg-boss'] as const
const MODULES = { sluice: new URL('../dist/index.js', import.meta.url).href, 'pg-boss': import.meta.resolve('pg-boss') }

interface Taken {
  readonly clockMs: number
  readonly processorMs: number
}

const rounds = Number(process.argv[2] ?? 20)
const taken: Record<(typeof NAMES)[number], Taken[]> = { sluice: [], 'pg-boss': [] }
for (let round = 0; round < rounds; round++) {
  for (const name of round % 2 === 0 ? NAMES : NAMES.toReversed()) taken[name].push(await importOnce(MODULES[name]))
}
for (const name of NAMES) console.log(name, summary(taken[name]))
console.log('ratio', {
  clock: ratio(({ clockMs }) => clockMs),
  processor: ratio(({ processorMs }) => processorMs),
})

async function importOnce(module: string): Promise<Taken> {
  const program = `
    const [start, used] = [performance.now(), process.cpuUsage()]
    await import(${JSON.stringify(module)})
    const { user, system } = process.cpuUsage(used)
    console.log(JSON.stringify({ clockMs: performance.now() - start, processorMs: (user + system) / 1000 }))`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  return JSON.parse(stdout)
}

function summary(samples: readonly Taken[]): Readonly<Record<string, number>> {
  return {
    clockMedianMs: Math.round(median(samples.map(({ clockMs }) => clockMs))),
    processorMedianMs: Math.round(median(samples.map(({ processorMs }) => processorMs))),
  }
}

function ratio(of: (sample: Taken) => number): number {
  return Math.round((median(taken.sluice.map(of)) / median(taken['pg-boss'].map(of))) * 100) / 100
}

function median(values: readonly number[]): number {
  return percentile(values, 50)
}
