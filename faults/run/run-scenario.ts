import type pg from 'pg'
import { migrate } from '../../src/index.ts'
import type { Load } from '../actors/producer-process.ts'
import { audit, type Finding } from '../auditor/audit.ts'
import { CHECKS, type Expectations, LEAKS, type Verdict } from '../auditor/checks.ts'
import { type Recovery, readRecovery } from '../auditor/recovery.ts'
import { CREATE_LEDGER, GROUPS } from '../ledger.ts'
import { Random } from '../random.ts'
import { connect, type Environment, ownDatabase } from './environment.ts'
import { Fleet } from './fleet.ts'
import type { Mode } from './modes.ts'
import type { ScenarioInMode } from './scenario.ts'
import { Stage } from './stage.ts'
import { until } from './until.ts'

export interface RunSpec {
  readonly scenario: ScenarioInMode
  readonly mode: Mode
  readonly seed: number
  readonly scale: 'quick' | 'full'
  /** Run what is broken on purpose instead. */
  readonly broken?: boolean
  /** Where databases for scenarios can be made. */
  readonly serverUrl: string
}

/** What came of a scenario. */
export type Outcome =
  | { readonly kind: 'missing'; readonly reason: string }
  | {
      readonly kind: 'judged'
      readonly findings: readonly Finding[]
      readonly recovery: readonly Recovery[]
      readonly messages: number
      readonly ms: number
    }

/** Runs one scenario in one mode and lets the auditor judge. */
export async function runScenario(spec: RunSpec): Promise<Outcome> {
  const startedAt = performance.now()
  const environment = await (spec.scenario.environment?.(spec.serverUrl) ?? ownDatabase(spec.serverUrl))
  if ('missing' in environment) return { kind: 'missing', reason: environment.missing }
  try {
    const judged = await play(spec, environment)
    return { kind: 'judged', ...judged, ms: performance.now() - startedAt }
  } finally {
    await environment.stop()
  }
}

async function play(spec: RunSpec, environment: Environment) {
  const { scenario, seed } = spec
  const twin = spec.broken ? scenario.twin : undefined
  await setUp(environment, spec.mode, twin?.sql)
  const options = { environment, queue: QUEUE, seed, mode: spec.mode, edits: twin?.edits }
  const load: Load = { ...LOAD, ...spec.mode.load, ...scenario.load, ...twin?.load }
  const workers = { ...scenario.workers, ...twin?.workers }
  await using fleet = new Fleet({ ...options, load, workers })
  const { recoveryMs } = scenario
  const random = new Random(seed)
  const stage = new Stage({
    environment,
    fleet,
    queue: QUEUE,
    isStream: spec.mode.name === 'stream',
    random,
    recoveryMs,
    broken: twin !== undefined,
  })
  try {
    const interrupted = await inject(spec, stage)
    const caught = await findAtOnce(spec, stage)
    if (caught.length > 0) return await judgement(environment, caught)
    return await judge(spec, environment, stage, interrupted).catch((error: unknown) => {
      throw interrupted === undefined ? error : new Error(interrupted, { cause: error })
    })
  } finally {
    await stage.end()
  }
}

const QUEUE = 'load'

/** A few hundred messages per second of all kinds: half of them with keys, some that fail, some late, some rolled back. */
const LOAD: Load = {
  lanes: 3,
  pauseMs: 30,
  keys: 3,
  long: 0.05,
  longMs: 300,
  rollbacks: 0.1,
  failing: 0.08,
  dying: 0.02,
  delayed: 0,
  delayMs: 0,
  deduped: 0,
  asks: 'transaction',
}

async function setUp(environment: Environment, mode: Mode, sql: string | undefined): Promise<void> {
  await migrate(environment.ledgerUrl)
  await withClient(environment, async (client) => {
    await client.query(CREATE_LEDGER)
    if (mode.name === 'stream') await createStream(client)
    if (sql !== undefined) await client.query(sql)
  })
}

async function createStream(client: pg.Client): Promise<void> {
  await client.query('SELECT sluice.create_stream($1)', [QUEUE])
  for (const group of GROUPS) await client.query("SELECT sluice.create_group($1, $2, '{0}')", [QUEUE, group])
}

/** Returns why the load came to a standstill, if it did: for the auditor, that is the same as messages that are stuck. */
async function inject(spec: RunSpec, stage: Stage): Promise<string | undefined> {
  const { scenario, scale } = spec
  const { flow = 20 } = scenario
  await scenario.prepare?.(stage)
  // What does not come into its stride has not been tried: that is no finding.
  await stage.fleet.start()
  await stage.flows(flow, STRIDE_MS)
  try {
    for (let at = 0; at < scenario.injections[scale]; at++) {
      await scenario.inject(stage, at)
      await stage.flows(flow, scenario.recoveryMs + FLOW_MS)
      if ((await findAtOnce(spec, stage)).length > 0) return undefined
    }
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** What is broken has shown itself, if it has done what nothing that follows can undo. Then there is no more to wait for. */
async function findAtOnce(spec: RunSpec, { environment }: Stage): Promise<readonly Finding[]> {
  // Between an effect elsewhere and its settlement there are both.
  const isElsewhere = environment.booked !== undefined || spec.scenario.workers?.effects === 'elsewhere'
  const caught = isElsewhere ? [] : caughtBy(spec)
  const checks = CHECKS.filter(({ verdict, lasts }) => lasts && caught.includes(verdict))
  if (checks.length === 0) return []
  return withClient(environment, (client) => audit(client, expectationsOf(spec), checks))
}

async function judge(spec: RunSpec, environment: Environment, stage: Stage, interrupted: string | undefined) {
  const { scenario } = spec
  await stage.fleet.stopProducer()
  const isEmpty = async () => {
    const [row] = await stage.sql('SELECT NOT EXISTS (SELECT FROM ledger.waiting WHERE queue = $1) AS empty', [QUEUE])
    return row?.empty === true
  }
  // What has stood still will not go on.
  const patienceMs = interrupted === undefined ? scenario.recoveryMs + FLOW_MS : STILL_MS
  await until(isEmpty, 'the queue to be empty', patienceMs, EMPTY_EVERY_MS).catch(() => undefined)
  await environment.booked?.()
  const found = await withClient(environment, (client) => audit(client, expectationsOf(spec)))
  const halted: Finding[] = interrupted === undefined ? [] : [{ verdict: 'stuck', count: 1, examples: [interrupted] }]
  const findings = [...found, ...halted]
  // To stop what is broken in another way may take as long as its workers have patience.
  const isCaught = findings.some(({ verdict }) => caughtBy(spec).includes(verdict))
  return judgement(environment, isCaught ? findings : [...findings, ...(await findLeaks(stage))])
}

async function judgement(environment: Environment, findings: readonly Finding[]) {
  return withClient(environment, async (client) => {
    const { rows } = await client.query<{ messages: number }>(
      'SELECT count(*)::integer AS messages FROM ledger.enqueued',
    )
    return { findings, recovery: await readRecovery(client), messages: rows[0]?.messages ?? 0 }
  })
}

function expectationsOf({ scenario, mode }: RunSpec): Expectations {
  const { costsAttempts = false, recoveryMs, workers } = scenario
  return { queue: QUEUE, effects: mode.effects, costsAttempts, recoveryMs, pollMs: workers?.pollIntervalMs ?? POLL_MS }
}

/** What the auditor must find, if what runs is broken. */
function caughtBy({ scenario, broken }: RunSpec): readonly Verdict[] {
  return (broken && scenario.twin?.caught) || []
}

async function withClient<T>({ ledgerUrl }: Environment, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = await connect(ledgerUrl)
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

/** The server notices with a delay that a client is gone: what is left after that is left for good. */
async function findLeaks(stage: Stage): Promise<readonly Finding[]> {
  const stopped = await stage.fleet.stopWorkers().then(
    () => [],
    (error: unknown) => [{ verdict: LEAKS.verdict, count: 1, examples: [String(error)] }],
  )
  const { pooled = false, unsupervised = false } = stage.environment
  const left = () => stage.sql(LEAKS.sql, [pooled, unsupervised])
  await until(async () => (await left()).length === 0, 'nothing to be left', LEAK_MS).catch(() => undefined)
  const rows = await left()
  if (rows.length === 0) return stopped
  return [
    ...stopped,
    { verdict: LEAKS.verdict, count: rows.length, examples: rows.slice(0, 3).map(({ found }) => String(found)) },
  ]
}

/** The default of the library. */
const POLL_MS = 1_000
/** The load's own pace: its pauses, long transactions and retries. */
const FLOW_MS = 5_000
const STILL_MS = 2_000
const STRIDE_MS = 60_000
/** The question walks over the dead rows of a flood: asked sixty times a second it takes a third of a processor. */
const EMPTY_EVERY_MS = 200
const LEAK_MS = 5_000
