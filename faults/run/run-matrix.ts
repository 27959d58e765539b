import { randomInt } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { readCommit } from '../../bench/report/environment.ts'
import { type FoundServer, findServer } from '../../src/server.ts'
import { serverPackage } from '../environment/server-package.ts'
import type { MatrixResult } from '../report/page.ts'
import { isRight, type Row, tableOf } from '../report/table.ts'
import { SCENARIOS } from '../scenarios/index.ts'
import { connect } from './environment.ts'
import { MODES, type Mode } from './modes.ts'
import { runScenario } from './run-scenario.ts'
import type { Scenario } from './scenario.ts'

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
  const server = await findServer({ settings: SETTINGS, package: serverPackage() })
  const interrupted = new AbortController()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort())
  console.error(`seed ${seed}`)
  try {
    const until = performance.now() + (options.minutes ?? 0) * 60_000
    const rows: Row[] = []
    for (let round = 0; round === 0 || performance.now() < until; round++) {
      rows.push(...(await runRound(options, { seed: seed + round, serverUrl: server.url, signal: interrupted.signal })))
      if (interrupted.signal.aborted || (options.minutes !== undefined && !rows.every(isRight))) break
    }
    console.log(tableOf(rows))
    if (options.out !== undefined) await write(options.out, { seed, rows, server: await versionOf(server) })
    if (interrupted.signal.aborted) process.exitCode = 130
    else if (!rows.every(isRight)) process.exitCode = 1
  } finally {
    await server.stop()
  }
}

interface Round {
  readonly seed: number
  readonly serverUrl: string
  readonly signal: AbortSignal
}

/** Quick runs wait more than they work: a few at a time. In a full run each has the machine for itself. */
const AT_A_TIME = 4

async function runRound(options: FaultsOptions, round: Round): Promise<Row[]> {
  const cells = chosen(MODES, options.only).flatMap((mode) =>
    chosen(SCENARIOS, options.only).map((scenario) => ({ mode, scenario })),
  )
  const waiting = cells.map((cell, at) => ({ ...cell, at }))
  const rows: Row[] = []
  const lane = async () => {
    for (let next = waiting.shift(); next !== undefined && !round.signal.aborted; next = waiting.shift()) {
      const row = await runCell(next.mode, next.scenario, options, round)
      rows[next.at] = row
      console.error(`${isRight(row) ? 'ok  ' : 'BAD '} ${row.mode} ${row.scenario} (${Math.round(row.ms / 1_000)} s)`)
    }
  }
  await Promise.all(Array.from({ length: options.quick ? AT_A_TIME : 1 }, lane))
  return rows.filter((row) => row !== undefined)
}

async function runCell(mode: Mode, scenario: Scenario, options: FaultsOptions, round: Round): Promise<Row> {
  const { name, recoveryMs, title, twin } = scenario
  const started = performance.now()
  const broken = options.twins === true
  const outcome = await runScenario({
    ...round,
    scenario,
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
    seed: round.seed,
    ms,
    ...(broken ? { twin } : {}),
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

/** The items named in `only`, or all of them if none is. */
function chosen<T extends { readonly name: string }>(items: readonly T[], only: readonly string[]): readonly T[] {
  const named = items.filter(({ name }) => only.includes(name))
  return named.length === 0 ? items : named
}
