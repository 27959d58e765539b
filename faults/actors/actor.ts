import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../run/until.ts'
import type { Edit } from '../twins/twins.ts'

export interface ActorOptions {
  readonly name: string
  /** Changes of the library that it runs: see `twins/break.ts`. */
  readonly edits?: readonly Edit[] | undefined
  /** Arguments of its program. */
  readonly args?: readonly string[] | undefined
}

/** A process that plays a part: a producer or a worker. It hears orders, tells news, and may be killed. */
export class Actor<Order, News extends { readonly kind: string }> {
  readonly name: string
  /** All that it has told so far. */
  readonly news: News[] = []
  /** How it ended: an exit code, or a signal. */
  readonly ended: Promise<number | string>
  readonly #process: ChildProcess
  #end: number | string | undefined
  #words = ''

  constructor(program: URL, options: ActorOptions) {
    this.name = options.name
    const { edits, args = [] } = options
    this.#process = fork(program, args, {
      execArgv: edits === undefined ? [] : ['--import', new URL('../twins/break.ts', import.meta.url).href],
      env: { ...COMPILE_CACHE, ...process.env, ...(edits === undefined ? {} : { SLUICE_TWIN: JSON.stringify(edits) }) },
      // The command line says what it does, and so it is shown only if it fails.
      stdio: ['ignore', 'ignore', args.length > 0 ? 'pipe' : 'inherit', 'ipc'],
    })
    this.#process.stderr?.on('data', (words) => {
      this.#words = `${this.#words}${words}`.slice(-LAST_WORDS)
    })
    this.#process.on('message', (news: News) => this.news.push(news))
    this.#process.on('error', () => undefined)
    this.ended = once(this.#process, 'exit').then(([code, signal]: unknown[]) => {
      this.#end = (code ?? signal) as number | string
      return this.#end
    })
  }

  get pid(): number {
    return this.#process.pid ?? 0
  }

  get hasEnded(): boolean {
    return this.#end !== undefined
  }

  /** An order to one who is gone is lost. */
  order(order: Order): void {
    if (this.#process.connected) this.#process.send(order as object, () => undefined)
  }

  /** Resolves when it has told this. */
  async told(kind: News['kind'], what: string, timeoutMs = 60_000): Promise<void> {
    const told = () => {
      if (this.news.some((news) => news.kind === kind)) return true
      if (this.hasEnded) throw new Error(`${this.name} ended with ${this.#end}, and will not ${what} ${this.#words}`)
      return false
    }
    await until(told, `${this.name} to ${what}`, timeoutMs)
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

/** Stripped of types once, so that starting a process takes half the time. Entries are kept by content, so edits are seen. */
const COMPILE_CACHE = { NODE_COMPILE_CACHE: join(tmpdir(), 'sluice-faults-compile-cache') }

const LAST_WORDS = 2_000
