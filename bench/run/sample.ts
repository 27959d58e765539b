import { fork } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import type { Case, Cell, Measured, Scale } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import type { BenchDatabase } from './server.ts'
import { withoutRoot } from './without-root.ts'

/** What one sample gave: its metrics, or why there are none. */
export type Sample = Pick<Measured, 'metrics' | 'series' | 'pictures'> | { readonly failed: string }

/** What the process of a sample is told. */
export interface SampleOrder {
  readonly cell: string
  readonly case: string
  readonly contestant: string
  readonly url: string
  readonly scale: Scale
}

/** What the process of a sample tells. */
export type SampleAnswer = { readonly measured: Measured } | { readonly failed: string }

export interface SampleSpec {
  readonly cell: Cell
  readonly case: Case
  readonly contestant: Contestant
  readonly scale: Scale
}

/** Sets the tables up, measures in a fresh process, and looks whether the tables agree with what it says. */
export async function takeSample(database: BenchDatabase, spec: SampleSpec, signal: AbortSignal): Promise<Sample> {
  const { url, client } = database
  try {
    await prepare(client, spec)
    const answer = await measure(url, spec, signal)
    if ('failed' in answer) return { failed: withoutRoot(answer.failed) }
    await verify(client, spec.contestant, answer.measured)
    const { metrics, series, pictures } = answer.measured
    return { metrics, ...(series && { series }), ...(pictures && { pictures }) }
  } catch (error) {
    return { failed: withoutRoot(error instanceof Error ? error.message : String(error)) }
  } finally {
    if (spec.contestant.setUp !== undefined) await client.query(spec.contestant.setUp.undo)
    await clear(client, spec.contestant)
  }
}

async function prepare(client: pg.Client, { contestant, case: { fill }, scale }: SampleSpec): Promise<void> {
  await clear(client, contestant)
  if (contestant.setUp !== undefined) await client.query(contestant.setUp.sql)
  const spec = fill(scale)
  if (spec.messages > 0) await contestant.fill(client, spec)
  await client.query(`VACUUM (ANALYZE) ${contestant.tables.join(', ')}`)
  await client.query('CHECKPOINT')
}

async function clear(client: pg.Client, contestant: Contestant): Promise<void> {
  await client.query(`TRUNCATE bench.effect, ${contestant.tables.join(', ')}`)
}

async function verify(client: pg.Client, contestant: Contestant, measured: Measured): Promise<void> {
  const left = await contestant.unsettled(client)
  if (left !== measured.left) throw new Error(`Expected ${measured.left} messages to be left, found ${left}`)
  if (measured.effects === undefined) return
  const { rows } = await client.query<{ count: string }>('SELECT count(*) FROM bench.effect')
  const effects = Number(rows[0]?.count)
  if (effects !== measured.effects) throw new Error(`Expected ${measured.effects} effects, found ${effects}`)
}

const SAMPLE_ENVIRONMENT = {
  ...process.env,
  NODE_ENV: 'production',
  // As graphile-worker's own measurements do; the others take no notice.
  NO_LOG_SUCCESS: '1',
  // Compiled and stripped of types once, so that Node's TypeScript loader is not part of every process.
  NODE_COMPILE_CACHE: join(tmpdir(), 'sluice-bench-compile-cache'),
}

/** Far more than any sample takes that does not hang. */
const LONGEST_MS = 1_200_000

async function measure(url: string, spec: SampleSpec, signal: AbortSignal): Promise<SampleAnswer> {
  const child = fork(new URL('./sample-process.ts', import.meta.url), {
    env: SAMPLE_ENVIRONMENT,
    // What contestants log is not a result, and stdout may be somebody's JSON.
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    signal,
    timeout: LONGEST_MS,
    killSignal: 'SIGKILL',
  })
  // Not as an argument: everybody on the machine can see those, and the URL has a password.
  child.send({
    cell: spec.cell.name,
    case: spec.case.name,
    contestant: spec.contestant.name,
    url,
    scale: spec.scale,
  } satisfies SampleOrder)
  let answer: SampleAnswer | undefined
  child.once('message', (message) => {
    answer = message as SampleAnswer
  })
  // Its end is awaited, so that its last connections are not part of the next sample.
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ failed: error.message }))
    child.once('exit', (code, killed) =>
      resolve(answer ?? { failed: `its process ended by ${killed ?? `exit code ${code}`}` }),
    )
  })
}
