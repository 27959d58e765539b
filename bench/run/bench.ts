import { join } from 'node:path'
import type { Cell, Scale } from '../cell.ts'
import { CELLS } from '../cells/index.ts'
import type { Contestant } from '../contestant.ts'
import { CONTESTANTS, loadContestant, whyNotLoaded } from '../contestants/index.ts'
import { whyMissing } from '../packages.ts'
import { readEnvironment } from '../report/environment.ts'
import { type CellResult, toResult } from '../report/result.ts'
import { format, tableOf } from '../report/table.ts'
import { writeResult } from '../report/write.ts'
import { runRounds } from './rounds.ts'
import { type BenchServer, startServer } from './server.ts'

export interface BenchOptions {
  readonly quick?: true
  readonly long?: true
  readonly rounds?: number
  /** Names of cells and contestants; all of either kind if none is named. */
  readonly only: readonly string[]
  readonly out?: string
  readonly json?: true
}

const ROOT = join(import.meta.dirname, '../..')

/** Runs all that is asked for, prints and writes the results. Ctrl-C stops the server as well. */
export async function runBench(options: BenchOptions): Promise<void> {
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort(new Error(signal)))
  const server = await startServer(options.long)
  try {
    const results = await runCells(server, options, interrupted.signal)
    if (options.json) console.log(JSON.stringify(results, null, 2))
  } catch (error) {
    if (!interrupted.signal.aborted) throw error
    process.exitCode = 130
  } finally {
    await server.stop()
  }
}

async function runCells(server: BenchServer, options: BenchOptions, signal: AbortSignal): Promise<CellResult[]> {
  const scale: Scale = options.quick ? 'quick' : 'full'
  const environment = readEnvironment(server, scale)
  say(`${environment.server}\n${environment.cpu}, Node ${environment.node}\n${settingsLine(environment.settings)}`)
  const noCharts = whyMissing('echarts')
  if (noCharts !== undefined) say(`Without charts: ${noCharts}`)
  const results: CellResult[] = []
  const cells = CELLS.filter(({ long }) => long === options.long)
  for (const cell of chosen(cells, (found) => found.name, options.only)) {
    say(`\n${cell.name}`)
    const contestants = await contestantsOf(cell, options.only, server)
    if (contestants.length === 0) {
      say('  nobody to ask: see the page')
      continue
    }
    const rounds = options.rounds ?? (options.quick ? 1 : Math.min(5, cell.mostRounds ?? 5))
    const entries = await runRounds(server, { cell, contestants, rounds, scale, signal, onSample: progress(cell) })
    const result = toResult(cell, entries, { environment, rounds })
    results.push(result)
    if (!options.json) console.log(tableOf(result))
    await writeResult(result, options.out ?? join(ROOT, options.quick ? '.tmp/bench' : 'bench/results'))
  }
  return results
}

const installed = new Set<string>()

/** Those that the cell asks, that are wanted, and that can run here, installed. */
async function contestantsOf(cell: Cell, only: readonly string[], server: BenchServer): Promise<readonly Contestant[]> {
  const able: Contestant[] = []
  for (const name of chosen(CONTESTANTS, (contestant) => contestant, only)) {
    const found = await contestantOrReason(cell, name)
    if (found === undefined) continue
    if (typeof found === 'string') {
      say(`  without ${name}: ${found}`)
      continue
    }
    able.push(found)
    if (installed.has(name)) continue
    await found.install((await server.database(found.database)).url)
    installed.add(name)
  }
  return able
}

/** A contestant that answers, or why it cannot; undefined if the cell does not ask it. */
async function contestantOrReason(cell: Cell, name: string): Promise<Contestant | string | undefined> {
  const notLoaded = whyNotLoaded(name)
  if (notLoaded !== undefined) return notLoaded
  const contestant = await loadContestant(name)
  if (!cell.asks(contestant) || (contestant.onlyIn ?? cell.name) !== cell.name) return undefined
  return cell.without?.[name] ?? contestant.missing?.() ?? contestant
}

/** The items named in `only`, or all of them if none is. */
function chosen<T>(items: readonly T[], nameOf: (item: T) => string, only: readonly string[]): readonly T[] {
  const named = items.filter((item) => only.includes(nameOf(item)))
  return named.length === 0 ? items : named
}

function progress(cell: Cell): Parameters<typeof runRounds>[1]['onSample'] {
  return (round, { contestant, case: name }, sample) => {
    const value =
      'failed' in sample
        ? `failed: ${sample.failed.split('\n')[0]}`
        : `${format(sample.metrics[cell.metric.name] ?? Number.NaN)} ${cell.metric.unit}`
    say(`  round ${round}  ${[contestant.name, name].filter(Boolean).join(', ')}  ${value}`)
  }
}

function settingsLine(settings: Readonly<Record<string, string>>): string {
  return Object.entries(settings)
    .map(([name, value]) => `${name}=${value}`)
    .join(' ')
}

/** Progress goes to stderr: stdout is for results. */
function say(text: string): void {
  console.error(text)
}
