import { durationWords } from '../../basics/time/duration-words.ts'
import { LONGEST_TIMER_MS, startTimer } from '../../basics/time/start-timer.ts'
import {
  type InboxStatistics,
  isSluiceError,
  prometheus,
  type RunningInbox,
  type RunningPipeline,
  type Sluice,
} from '../../index.ts'
import { note } from '../output.ts'
import { type HealthAddress, HealthServer, type WorkHealth } from './health.ts'
import type { WorkInbox, WorkPipeline } from './pipelines.ts'
import { reportLeft } from './report-left.ts'
import type { Signals } from './signals.ts'

/** How a run ends. */
export const DONE = 0
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

/** What a run runs. */
interface Parts {
  readonly pipelines: readonly WorkPipeline[]
  readonly inboxes: readonly WorkInbox[]
}

/** One run of the command. */
export class WorkRun {
  readonly #sluice: Sluice
  readonly #pipelines: readonly WorkPipeline[]
  readonly #inboxes: readonly WorkInbox[]
  /** What each inbox has done, by its queue. */
  readonly #received = new Map<string, () => InboxStatistics>()
  readonly #options: WorkOptions
  readonly #signals: Signals
  #isDraining = false

  constructor(sluice: Sluice, { pipelines, inboxes }: Parts, options: WorkOptions, signals: Signals) {
    this.#sluice = sluice
    this.#pipelines = pipelines
    this.#inboxes = inboxes
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
    const told = { queues: this.#sluice.statistics(), inboxes: this.#inboxStatistics() }
    // With --once nothing is consumed until it is connected.
    return health.status === 'idle' ? { ...health, ready: false, status: 'starting', ...told } : { ...health, ...told }
  }

  #inboxStatistics(): WorkHealth['inboxes'] {
    return Object.fromEntries([...this.#received].map(([queue, statistics]) => [queue, statistics()]))
  }

  async #untilSignal(): Promise<number> {
    const running = this.#pipelines.map(({ pipeline }) => pipeline.start())
    const receiving = this.#inboxes.map((one) => this.#startInbox(one))
    // Without pipelines the command runs as long as inboxes do, which do not stop by themselves.
    const ended = [running, receiving].filter((parts) => parts.length > 0).map(allEnded)
    const signal = await Promise.race([this.#signals.first, ...ended])
    // Inboxes first, so that nothing more is received.
    if (typeof signal === 'string') return await this.#drain([...receiving, ...running], signal)
    // All have stopped by themselves.
    return FAILED
  }

  #startInbox({ queue, system, inbox }: WorkInbox): RunningInbox {
    const started = inbox.start()
    this.#received.set(queue, () => started.statistics())
    note(`receives into ${queue} (${system})`)
    return started
  }

  async #drain(running: readonly (RunningInbox | RunningPipeline)[], signal: NodeJS.Signals): Promise<number> {
    const { drainTimeout: timeout } = this.#options
    const stops = this.#inboxes.length > 0 ? 'stops receiving and claiming' : 'stops claiming'
    note(
      `${signal}: ${stops}, and waits up to ${durationWords(timeout)} for messages in flight; a second signal gives them back`,
    )
    const drained = Promise.all(running.map((pipeline) => pipeline.drain({ timeout })))
    const first = await Promise.race([drained, this.#signals.second])
    if (typeof first !== 'string') return first.every(({ completed }) => completed) ? DONE : GAVE_BACK
    note(`${first}: gives back the messages in flight; a third signal kills`)
    await Promise.all(running.map((pipeline) => pipeline.stop()))
    return GAVE_BACK
  }

  /** Receives, and passes over all queues until one pass settles nothing: what a handler enqueues is handled too. */
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
    const unavailable = new Set<string>()
    const heard = this.#sluice.events.subscribe((event) => {
      if (event.kind === 'relay.unavailable') unavailable.add(event.queue)
      if (event.kind === 'relay.available') unavailable.delete(event.queue)
    })
    try {
      await this.#receive()
      while (!this.#isDraining && (await this.#pass()) > 0);
      if (!this.#isDraining) await reportLeft(this.#sluice, this.#pipelines, unavailable)
    } catch (error) {
      // The signal came between two passes.
      if (!isSluiceError(error, 'STOPPED') || !this.#isDraining) throw error
    } finally {
      heard.unsubscribe()
      clearTimeout(limit)
    }
    return code
  }

  async #receive(): Promise<void> {
    const all = this.#inboxes.map(async ({ queue, inbox }) => {
      const counts = await inbox.runOnce()
      this.#received.set(queue, () => counts)
    })
    await Promise.all(all)
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
    for (const [queue, { enqueued, duplicates, dead }] of Object.entries(this.#inboxStatistics()))
      note(`${queue}: ${enqueued} enqueued, ${duplicates} duplicates, ${dead} dead`)
  }
}

async function allEnded(parts: readonly { readonly ended: Promise<void> }[]): Promise<void> {
  await Promise.all(parts.map(({ ended }) => ended))
}
