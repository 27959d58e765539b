import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import type { SluiceOptions } from '../../../src/config.ts'
import type { LeasedPipelineOptions, PipelineOptions } from '../../../src/plan/options.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import type { TestDatabase } from '../servers/database.ts'
import { PROCESS_MS, waitFor } from '../wait.ts'

/** What a worker process runs. */
export interface WorkerSetup {
  readonly sluice: SluiceOptions & { readonly name: string }
  readonly queue: string
  readonly pipeline: PipelineOptions | LeasedPipelineOptions
}

/** What a message does to who handles it, after it has written its effect. */
export interface WorkerPayload {
  /** Waits for the order to go on. */
  readonly wait?: boolean
  /** Takes so long. */
  readonly ms?: number
  /** Kills the process then. */
  readonly kill?: boolean
}

export type WorkerOrders = 'go' | 'stop'

export type WorkerNews =
  | { readonly kind: 'handling'; readonly id: string; readonly attempt: number }
  | { readonly kind: 'event'; readonly event: SluiceEvent['kind'] }

/** A worker in a process of its own, which ends with the test. */
export class WorkerProcess {
  readonly name: string
  /** All that it has told so far. */
  readonly news: WorkerNews[] = []
  /** How it ended: an exit code, or a signal. */
  readonly ended: Promise<number | string>
  readonly #process: ChildProcess
  #over = false

  private constructor(setup: WorkerSetup) {
    this.name = setup.sluice.name
    const program = new URL('./worker-child.ts', import.meta.url)
    this.#process = fork(program, [JSON.stringify(setup)], { execArgv: [] })
    this.#process.on('message', (news: WorkerNews) => this.news.push(news))
    this.ended = once(this.#process, 'exit').then(([code, signal]) => {
      this.#over = true
      return code ?? signal
    })
    onTestFinished(async () => {
      this.#process.kill('SIGKILL')
      await this.ended
    })
  }

  /** Starts one, and waits until it consumes. */
  static async start(
    database: Pick<TestDatabase, 'url'>,
    queue: string,
    options: (PipelineOptions | LeasedPipelineOptions) & Pick<SluiceOptions, 'crashLimit' | 'directConnection'> = {},
  ): Promise<WorkerProcess> {
    const { crashLimit, directConnection, ...pipeline } = options
    const sluice = { connection: database.url, name: `worker ${++started}`, crashLimit, directConnection }
    const worker = new WorkerProcess({ sluice, queue, pipeline })
    await worker.event('pipeline.started')
    return worker
  }

  /** The attempts of a message that it has begun. */
  attemptsOf(id: string): readonly number[] {
    return this.news.flatMap((news) => (news.kind === 'handling' && news.id === id ? [news.attempt] : []))
  }

  /** How often it has begun to handle a message. */
  get begun(): number {
    return this.news.filter(({ kind }) => kind === 'handling').length
  }

  /** Resolves when it handles a message, with the number of the attempt. */
  handling(id: string): Promise<number> {
    return this.#waitFor(() => this.attemptsOf(id)[0], `to handle ${id}`)
  }

  async event(kind: SluiceEvent['kind']): Promise<void> {
    await this.#waitFor(
      () => this.news.some((news) => news.kind === 'event' && news.event === kind),
      `to report ${kind}`,
    )
  }

  #waitFor<T>(condition: () => T, what: string) {
    const unlessOver = () => {
      const value = condition()
      if (!value && this.#over) throw new Error(`${this.name} has ended and will not come ${what}`)
      return value
    }
    return waitFor(unlessOver, { what: `${this.name} ${what}`, timeoutMs: PROCESS_MS })
  }

  order(order: WorkerOrders): void {
    this.#process.send(order)
  }

  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal)
  }

  /** Ends it without warning. */
  async kill(): Promise<void> {
    this.signal('SIGKILL')
    await this.ended
  }
}

let started = 0
