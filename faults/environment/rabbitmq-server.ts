import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { programOnPath } from './program-on-path.ts'

/** A RabbitMQ server, with a port and a folder that it keeps when it is killed and started again. */
export class RabbitmqServer {
  readonly port: number
  readonly #program: string
  readonly #folder: string
  readonly #environment: NodeJS.ProcessEnv
  /** Names of Erlang's nodes, of this server alone: the machine's own would outlive it. */
  readonly #names: ChildProcess
  #process: ChildProcess | undefined

  private constructor(program: string, folder: string, port: number, environment: NodeJS.ProcessEnv) {
    this.port = port
    this.#program = program
    this.#folder = folder
    this.#environment = environment
    this.#names = spawn('epmd', { stdio: 'ignore', env: environment })
    this.#names.on('error', () => undefined)
    process.once('exit', this.#kill)
  }

  /** @returns undefined if RabbitMQ is not installed */
  static async start(settings: readonly string[] = []): Promise<RabbitmqServer | undefined> {
    const program = await programOnPath('rabbitmq-server', DEBIAN)
    if (program === undefined) return undefined
    const folder = await temporaryFolder('sluice-rabbitmq-')
    const port = await freePort()
    await writeFile(join(folder, 'rabbitmq.conf'), [`listeners.tcp.1 = 127.0.0.1:${port}`, ...settings, ''].join('\n'))
    await writeFile(join(folder, '.erlang.cookie'), COOKIE, { mode: 0o400 })
    const environment = environmentIn(folder, await freePort(), await freePort())
    const server = new RabbitmqServer(program, folder, port, environment)
    await server.run()
    return server
  }

  get url(): string {
    return `amqp://127.0.0.1:${this.port}`
  }

  /** Resolves when it accepts connections. */
  async run(): Promise<void> {
    const child = spawn(this.#program, { stdio: ['ignore', 'pipe', 'ignore'], env: this.#environment })
    this.#process = child
    const log: string[] = []
    const up = Promise.withResolvers<void>()
    createInterface(child.stdout).on('line', (line) => {
      if (log.push(line) > LOG_LINES) log.shift()
      if (line.includes('Server startup complete')) up.resolve()
    })
    child.on('error', up.reject)
    child.on('exit', () => up.reject(new Error(`rabbitmq-server did not start:\n${log.join('\n')}`)))
    await up.promise
  }

  /** It does nothing any more, and its connections stay open. */
  freeze(): void {
    this.#process?.kill('SIGSTOP')
  }

  thaw(): void {
    this.#process?.kill('SIGCONT')
  }

  /** Whether it has too little memory, and so blocks the connections that publish. */
  async beShortOfMemory(isShort: boolean): Promise<void> {
    const call = `vm_memory_monitor set_vm_memory_high_watermark [${isShort ? '0.0000001' : '0.8'}]`
    await promisify(execFile)('erl_call', ['-sname', NODE, '-c', COOKIE, '-a', call], { env: this.#environment })
  }

  /** Ends it as a system does that shuts down, and starts it again. */
  async restart(): Promise<void> {
    await this.#end('SIGTERM')
    await this.run()
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Ends it, and removes what it has stored. */
  async stop(): Promise<void> {
    await this.kill()
    this.#names.kill('SIGKILL')
    process.off('exit', this.#kill)
    await rm(this.#folder, { recursive: true, force: true })
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  readonly #kill = (): void => {
    this.#process?.kill('SIGKILL')
    this.#names.kill('SIGKILL')
  }
}

/** Nothing outside of the folder is read or written, and nobody but this machine reaches it. */
function environmentIn(folder: string, distributionPort: number, namesPort: number): NodeJS.ProcessEnv {
  return {
    PATH: process.env.PATH,
    HOME: folder,
    ERL_EPMD_ADDRESS: '127.0.0.1',
    ERL_EPMD_PORT: String(namesPort),
    RABBITMQ_NODENAME: NODE,
    RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
    RABBITMQ_DIST_PORT: String(distributionPort),
    RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1} +S 1 +sbwt none',
    RABBITMQ_CONFIG_FILE: join(folder, 'rabbitmq.conf'),
    RABBITMQ_ADVANCED_CONFIG_FILE: join(folder, 'advanced.config'),
    RABBITMQ_CONF_ENV_FILE: join(folder, 'rabbitmq-env.conf'),
    RABBITMQ_ENABLED_PLUGINS_FILE: join(folder, 'enabled_plugins'),
    RABBITMQ_GENERATED_CONFIG_DIR: join(folder, 'config'),
    RABBITMQ_SCHEMA_DIR: join(folder, 'schema'),
    RABBITMQ_MNESIA_BASE: join(folder, 'data'),
    RABBITMQ_LOG_BASE: join(folder, 'log'),
    RABBITMQ_PID_FILE: join(folder, 'pid'),
    RABBITMQ_LOGS: '-',
    // The script becomes the server, instead of a shell that waits for it.
    RUNNING_UNDER_SYSTEMD: 'true',
  }
}

/** The program on Debian's PATH changes the user, and loses the environment. */
const DEBIAN = '/usr/lib/rabbitmq/bin'
const NODE = 'sluice@localhost'
/** Two programs of Erlang talk to each other if they have the same. */
const COOKIE = 'sluice'
const LOG_LINES = 50
