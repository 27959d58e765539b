import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { programOnPath } from './program-on-path.ts'

/** A NATS server with JetStream, with a port and a folder that it keeps when it is killed and started again. */
export class NatsServer {
  readonly port: number
  readonly #program: string
  readonly #folder: string
  readonly #args: readonly string[]
  #process: ChildProcess | undefined

  private constructor(program: string, folder: string, port: number, args: readonly string[]) {
    this.port = port
    this.#program = program
    this.#folder = folder
    this.#args = args
    process.once('exit', this.#kill)
  }

  /** One server, perhaps with further arguments. Undefined if NATS is not installed. */
  static async start(args: readonly string[] = []): Promise<NatsServer | undefined> {
    const server = await NatsServer.make(args)
    await server?.run()
    return server
  }

  /** One server with further arguments, which does not run yet. Undefined if NATS is not installed. */
  static async make(args: readonly string[]): Promise<NatsServer | undefined> {
    const program = await programOnPath('nats-server')
    if (program === undefined) return undefined
    return new NatsServer(program, await temporaryFolder('sluice-nats-'), await freePort(), args)
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  /** Resolves when it accepts connections. */
  async run(): Promise<void> {
    const place = ['-a', '127.0.0.1', '-p', String(this.port), '-js', '-sd', this.#folder]
    const child = spawn(this.#program, [...place, ...this.#args], { stdio: ['ignore', 'ignore', 'pipe'] })
    this.#process = child
    const log: string[] = []
    const up = Promise.withResolvers<void>()
    createInterface(child.stderr).on('line', (line) => {
      if (log.push(line) > LOG_LINES) log.shift()
      if (line.includes('Server is ready')) up.resolve()
    })
    child.on('error', up.reject)
    child.on('exit', () => up.reject(new Error(`nats-server did not start:\n${log.join('\n')}`)))
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
    const child = this.#process
    this.#process = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGKILL')
    await ended
  }

  /** Ends it, and removes what it has stored. */
  async stop(): Promise<void> {
    await this.kill()
    process.off('exit', this.#kill)
    await rm(this.#folder, { recursive: true, force: true })
  }

  readonly #kill = (): void => void this.#process?.kill('SIGKILL')
}

const LOG_LINES = 50
