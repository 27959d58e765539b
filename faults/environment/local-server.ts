import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { basename } from 'node:path'
import { createInterface } from 'node:readline'

/** How a server is started, and how its log says that it accepts connections. */
export interface Launch {
  readonly program: string
  readonly args: readonly string[]
  /** Default: that of this process. */
  readonly environment?: NodeJS.ProcessEnv
  readonly logsTo: 'stdout' | 'stderr'
  /** Part of a line of the log. */
  readonly upLine: string
}

/** A server that keeps its port and its folder when it is killed and started again. It ends with this process. */
export class LocalServer {
  readonly port: number
  readonly #folder: string
  readonly #launch: Launch
  #process: ChildProcess | undefined

  protected constructor(port: number, folder: string, launch: Launch) {
    this.port = port
    this.#folder = folder
    this.#launch = launch
    process.once('exit', this.#kill)
  }

  /** Resolves when it accepts connections, and has read what it had stored. */
  async run(): Promise<void> {
    const { program, args, environment, logsTo, upLine } = this.#launch
    const [stdout, stderr] = logsTo === 'stdout' ? (['pipe', 'ignore'] as const) : (['ignore', 'pipe'] as const)
    const child = spawn(program, [...args], { stdio: ['ignore', stdout, stderr], env: environment ?? process.env })
    this.#process = child
    const log: string[] = []
    const up = Promise.withResolvers<void>()
    createInterface(child[logsTo]!).on('line', (line) => {
      if (log.push(line) > LOG_LINES) log.shift()
      if (line.includes(upLine)) up.resolve()
    })
    child.on('error', up.reject)
    child.on('exit', () => up.reject(new Error(`${basename(program)} did not start:\n${log.join('\n')}`)))
    await up.promise
  }

  /** It does nothing any more, and its connections stay open. */
  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    await this.end('SIGKILL')
  }

  /** Ends it, and removes what it has stored. */
  async stop(): Promise<void> {
    await this.kill()
    process.off('exit', this.#kill)
    await rm(this.#folder, { recursive: true, force: true })
  }

  protected async end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  readonly #kill = (): void => void this.#process?.kill('SIGKILL')
}

const LOG_LINES = 50
