import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readCommit } from '../../bench/report/environment.ts'
import { type FoundServer, findServer } from '../../server/find-server.ts'
import { serverPackage } from '../../server/server-package.ts'
import { within } from '../../src/basics/time/within.ts'
import type { MatrixResult } from '../report/page.ts'
import { isRight, lineOf, type Row, tableOf } from '../report/table.ts'
import { SCENARIOS } from '../scenarios/index.ts'
import { connect } from './environment.ts'
import { MODES } from './modes.ts'
import { type Cell, cellsOf, isQuick, runCells } from './run-cells.ts'
import { runScenario } from './run-scenario.ts'

export interface FaultsOptions {
  readonly quick?: true
  readonly twins?: true
  readonly seed?: number
  readonly minutes?: number
  /** Names of scenarios and modes; all of either kind if none is named. */
  readonly only: readonly string[]
  readonly out?: string
}

/** Settings of a server that scenarios share: a killed process loses nothing that the kernel has, so no fsync. */
const SETTINGS = { max_connections: 300, fsync: 'off', full_page_writes: 'off' } as const

/** Runs the matrix, prints it, and sets the exit code: 1 if anything was found, or a twin was not caught. */
export async function runFaults(options: FaultsOptions): Promise<void> {
  const seed = options.seed ?? randomInt(1_000_000)
  const server = await findServer({ settings: SETTINGS, package: serverPackage(), inMemory: true })
  const interrupted = onInterrupt()
  console.error(`seed ${seed}`)
  try {
    const rows: Row[] = []
    const running = runAll(options, { seed, serverUrl: server.url, interrupted, rows })
    // What has ended is told at once; then what runs comes to its end, so that nothing of it is left behind.
    await Promise.race([running, once(interrupted, 'abort')])
    const ended = rows.filter((row) => row !== undefined)
    console.log(tableOf(ended))
    if (options.out !== undefined) await write(options.out, { seed, rows: ended, server: await versionOf(server) })
    if (interrupted.aborted) process.exitCode = 130
    else if (!ended.every(isRight)) process.exitCode = 1
    await running
  } finally {
    await within(STOP_MS, server.stop(), () => console.error('The server has not stopped'))
  }
}

const STOP_MS = 30_000

/** Aborts at the first SIGINT or SIGTERM. npm hands on what the terminal has sent as well: a second one comes later. */
function onInterrupt(): AbortSignal {
  const interrupted = new AbortController()
  let at = Number.POSITIVE_INFINITY
  const hear = () => {
    if (performance.now() - at > SECOND_SIGNAL_MS) process.exit(130)
    at = Math.min(at, performance.now())
    interrupted.abort()
  }
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, hear)
  return interrupted.signal
}

const SECOND_SIGNAL_MS = 1_000

/** Quick runs wait more than they work: a few at a time. In a full run each has the machine for itself. */
const AT_A_TIME = 4

interface Run {
  readonly seed: number
  readonly serverUrl: string
  readonly interrupted: AbortSignal
  /** Those that have ended, each in the place of its cell. */
  readonly rows: Row[]
}

/** One round; with a time, as many as begin in it, until something is found. */
async function runAll(options: FaultsOptions, { seed, serverUrl, interrupted, rows }: Run): Promise<void> {
  const { minutes, only } = options
  const found = new AbortController()
  const over = [interrupted, found.signal, ...(minutes === undefined ? [] : [AbortSignal.timeout(minutes * 60_000)])]
  const rounds = minutes === undefined ? 1 : Number.POSITIVE_INFINITY
  await runCells(cellsOf(chosen(MODES, only), chosen(SCENARIOS, only), seed, rounds, wantedBy(options)), {
    atATime: options.quick ? AT_A_TIME : 1,
    run: (cell) => runCell(cell, options, serverUrl),
    over: AbortSignal.any(over),
    onRow: (row, at) => {
      // The terminal's interrupt reaches the processes of a scenario too, so what ran then has no verdict.
      if (interrupted.aborted) return
      rows[at] = row
      console.error(lineOf(row))
      if (minutes !== undefined && !isRight(row)) found.abort()
    },
  })
}

/** Scenarios that run side by side share the machine: what is promised of time is held against full runs. */
const QUICK_PATIENCE = 3

async function runCell({ mode, scenario, seed }: Cell, options: FaultsOptions, serverUrl: string): Promise<Row> {
  const { name, title, twin } = scenario
  const started = performance.now()
  const broken = options.twins === true
  const recoveryMs = options.quick && !broken ? QUICK_PATIENCE * scenario.recoveryMs : scenario.recoveryMs
  const outcome = await runScenario({
    seed,
    serverUrl,
    scenario: { ...scenario, recoveryMs },
    mode,
    broken,
    scale: options.quick || broken ? 'quick' : 'full',
  }).catch((error: unknown) => ({
    kind: 'failed' as const,
    reason: error instanceof Error ? (error.stack ?? error.message) : String(error),
  }))
  const ms = performance.now() - started
  return {
    mode: mode.name,
    scenario: name,
    title,
    recoveryMs,
    seed,
    ms,
    ...(broken && twin !== undefined ? { twin } : {}),
    outcome,
  }
}

async function write(file: string, result: Pick<MatrixResult, 'seed' | 'rows' | 'server'>): Promise<void> {
  await mkdir(dirname(file), { recursive: true })
  const written: MatrixResult = { date: new Date().toISOString(), commit: readCommit(), ...result }
  await writeFile(file, `${JSON.stringify(written, null, 2)}\n`)
}

async function versionOf({ url, kind }: FoundServer): Promise<string> {
  const client = await connect(url)
  try {
    const { rows } = await client.query<{ version: string }>("SELECT current_setting('server_version') AS version")
    return `PostgreSQL ${rows[0]?.version} (${kind})`
  } finally {
    await client.end()
  }
}

/** A quick run leaves out what shows no more than another cell, unless it is named. */
function wantedBy({ quick, twins, only }: FaultsOptions): (cell: Cell) => boolean {
  return (cell) => (twins ? cell.scenario.twin !== undefined : !quick || only.length > 0 || isQuick(cell))
}

/** The items named in `only`, or all of them if none is. */
function chosen<T extends { readonly name: string }>(items: readonly T[], only: readonly string[]): readonly T[] {
  const named = items.filter(({ name }) => only.includes(name))
  return named.length === 0 ? items : named
}
