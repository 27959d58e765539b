import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { programOnPath } from './program-on-path.ts'

/** A Redis server that syncs each write to the disk, with a port and a folder that it keeps when it is killed and started again. */
export class RedisServer {
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

  /** @param args further arguments. Undefined if Redis is not installed. */
  static async start(args: readonly string[] = []): Promise<RedisServer | undefined> {
    const program = await programOnPath('redis-server')
    if (program === undefined) return undefined
    const server = new RedisServer(program, await temporaryFolder('sluice-redis-'), await freePort(), args)
    await server.run()
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Resolves when it accepts connections, and has read what it had stored. */
  async run(): Promise<void> {
    const place = ['--bind', '127.0.0.1', '--port', String(this.port), '--dir', this.#folder]
    const disk = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '']
    const child = spawn(this.#program, [...place, ...disk, ...this.#args], { stdio: ['ignore', 'pipe', 'ignore'] })
    this.#process = child
    const log: string[] = []
    const up = Promise.withResolvers<void>()
    createInterface(child.stdout).on('line', (line) => {
      if (log.push(line) > LOG_LINES) log.shift()
      if (line.includes('Ready to accept connections')) up.resolve()
    })
    child.on('error', up.reject)
    child.on('exit', () => up.reject(new Error(`redis-server did not start:\n${log.join('\n')}`)))
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
