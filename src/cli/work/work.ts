import type { Command } from 'commander'
import { durationWords } from '../../basics/duration-words.ts'
import { LONGEST_TIMER_MS, startTimer } from '../../basics/start-timer.ts'
import { createSluice, isSluiceError, prometheus, type RunningPipeline, type Sluice, SluiceError } from '../../index.ts'
import { connected } from '../connect.ts'
import { note } from '../output.ts'
import { type HealthAddress, HealthServer, type WorkHealth } from './health.ts'
import { loadModule } from './load-module.ts'
import { pipelinesOf, type WorkPipeline } from './pipelines.ts'
import { reportLeft } from './report-left.ts'
import { Signals } from './signals.ts'

const DONE = 0
const FAILED = 1
const GAVE_BACK = 3

/** The options of `sluice work`. */
export interface WorkOptions {
  readonly queue?: readonly string[]
  readonly concurrency?: number
  readonly batchSize?: number
  readonly mode?: 'transactional' | 'leased'
  readonly name?: string
  readonly once?: true
  readonly drainTimeout: number
  readonly health?: HealthAddress
}

/** Runs the handlers of a module, and returns the exit code. @throws what must be said before anything runs */
export async function work(file: string, options: WorkOptions, command: Command): Promise<number> {
  using signals = new Signals()
  const loaded = await Promise.race([loadModule(file, options.queue ?? []), signals.first])
  if (typeof loaded === 'string') {
    note(`${loaded}: exits before ${file} has loaded`)
    // The module, which still loads, would keep the process alive.
    process.exit(DONE)
  }
  const { sluice: own, queues } = loaded
  const { mode, concurrency, batchSize, queue = [] } = options
  const run = (sluice: Sluice) =>
    new WorkRun(sluice, pipelinesOf(sluice, queues, queue, { mode, concurrency, batchSize }), options, signals).run()
  if (own !== undefined) {
    checkOwn(file, options, command)
    return await run(own)
  }
  return await connected(command, (connection) =>
    run(
      createSluice({
        connection: { connectionString: connection.connectionString },
        name: options.name,
        log: { info: note, warn: note, error: note },
      }),
    ),
  )
}

/** The module's own Sluice has its connection and its name. @throws SluiceError OPTION_INVALID if they are given here */
function checkOwn(file: string, { name }: WorkOptions, command: Command): void {
  const { databaseUrl } = command.optsWithGlobals<{ readonly databaseUrl?: string }>()
  const [given, remedy] =
    databaseUrl !== undefined
      ? (['--database-url', 'connection: process.env.DATABASE_URL'] as const)
      : name !== undefined
        ? (['--name', 'name'] as const)
        : []
  if (given === undefined) return
  const text = `${given}: expected only for a module without a Sluice of its own, received with ${file}, which brings one`
  throw new SluiceError('OPTION_INVALID', `${text}. Leave it out, and give createSluice({ ${remedy} }) in the module`)
}

/** One run of the command. */
class WorkRun {
  readonly #sluice: Sluice
  readonly #pipelines: readonly WorkPipeline[]
  readonly #options: WorkOptions
  readonly #signals: Signals
  #isDraining = false

  constructor(sluice: Sluice, pipelines: readonly WorkPipeline[], options: WorkOptions, signals: Signals) {
    this.#sluice = sluice
    this.#pipelines = pipelines
    this.#options = options
    this.#signals = signals
  }

  async run(): Promise<number> {
    const { health, once } = this.#options
    const vitals = { health: () => this.#health(), metrics: () => prometheus(this.#sluice.metrics()) }
    await using server = health && (await HealthServer.listen(health, vitals))
    if (server !== undefined) note(`answers /livez, /readyz and /metrics on port ${server.port}`)
    try {
      return await (once ? this.#once() : this.#untilSignal())
    } finally {
      await this.#sluice.stop({ timeout: 0 })
      this.#summarise()
    }
  }

  #health(): WorkHealth {
    const health = this.#sluice.health()
    const queues = this.#sluice.statistics()
    // With --once nothing is consumed until it is connected.
    return health.status === 'idle' ? { ...health, ready: false, status: 'starting', queues } : { ...health, queues }
  }

  async #untilSignal(): Promise<number> {
    const running = this.#pipelines.map(({ pipeline }) => pipeline.start())
    const ended = Promise.all(running.map((pipeline) => pipeline.ended))
    const signal = await Promise.race([this.#signals.first, ended])
    if (typeof signal === 'string') return await this.#drain(running, signal)
    // All have stopped by themselves.
    return FAILED
  }

  async #drain(running: readonly RunningPipeline[], signal: NodeJS.Signals): Promise<number> {
    const { drainTimeout: timeout } = this.#options
    note(
      `${signal}: stops claiming, and waits up to ${durationWords(timeout)} for messages in flight; a second signal gives them back`,
    )
    const drained = Promise.all(running.map((pipeline) => pipeline.drain({ timeout })))
    const first = await Promise.race([drained, this.#signals.second])
    if (typeof first !== 'string') return first.every(({ completed }) => completed) ? DONE : GAVE_BACK
    note(`${first}: gives back the messages in flight; a third signal kills`)
    await Promise.all(running.map((pipeline) => pipeline.stop()))
    return GAVE_BACK
  }

  /** Passes over all queues, until one settles nothing: what a handler enqueues is handled too. */
  async #once(): Promise<number> {
    const { drainTimeout: timeout } = this.#options
    let code = DONE
    const giveBack = () => {
      code = GAVE_BACK
      return this.#sluice.stop({ timeout: 0 })
    }
    let limit: NodeJS.Timeout | undefined
    void this.#signals.first.then((signal) => {
      this.#isDraining = true
      note(`${signal}: exits when the messages in flight are done`)
      limit = startTimer(() => void giveBack(), timeout)
      void this.#sluice.stop({ timeout: LONGEST_TIMER_MS })
    })
    void this.#signals.second.then(giveBack)
    try {
      while ((await this.#pass()) > 0 && !this.#isDraining);
      if (!this.#isDraining) await reportLeft(this.#sluice, this.#pipelines)
    } catch (error) {
      // The signal came between two passes.
      if (!isSluiceError(error, 'STOPPED') || !this.#isDraining) throw error
    } finally {
      clearTimeout(limit)
    }
    return code
  }

  async #pass(): Promise<number> {
    const runs = this.#pipelines.flatMap(({ pipeline, runs: count }) =>
      Array.from({ length: count }, () => pipeline.runOnce()),
    )
    const all = await Promise.all(runs)
    return all
      .map(({ counts }) => counts.acked + counts.retried + counts.snoozed + counts.dead)
      .reduce((sum, count) => sum + count, 0)
  }

  #summarise(): void {
    for (const [queue, { acked, retried, snoozed, dead }] of Object.entries(this.#sluice.statistics()))
      note(`${queue}: ${acked} acked, ${retried} retried, ${snoozed} snoozed, ${dead} dead`)
  }
}
