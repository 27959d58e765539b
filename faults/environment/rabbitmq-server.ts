import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { BrokerServer } from './broker-server.ts'
import { programOnPath } from './program-on-path.ts'

/** A RabbitMQ server. */
export class RabbitmqServer extends BrokerServer {
  readonly #environment: NodeJS.ProcessEnv
  /** Names of Erlang's nodes, of this server alone: the machine's own would outlive it. */
  readonly #names: ChildProcess

  private constructor(program: string, folder: string, port: number, environment: NodeJS.ProcessEnv) {
    super(port, folder, { program, args: [], environment, logsTo: 'stdout', upLine: 'Server startup complete' })
    this.#environment = environment
    this.#names = spawn('epmd', { stdio: 'ignore', env: environment })
    this.#names.on('error', () => undefined)
    process.once('exit', this.#killNames)
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

  /** Whether it has too little memory, and so blocks the connections that publish. */
  async beShortOfMemory(isShort: boolean): Promise<void> {
    const call = `vm_memory_monitor set_vm_memory_high_watermark [${isShort ? '0.0000001' : '0.8'}]`
    await promisify(execFile)('erl_call', ['-sname', NODE, '-c', COOKIE, '-a', call], { env: this.#environment })
  }

  /** Ends it as a system does that shuts down, and starts it again. */
  async restart(): Promise<void> {
    await this.end('SIGTERM')
    await this.run()
  }

  override async stop(): Promise<void> {
    await this.kill()
    this.#killNames()
    process.off('exit', this.#killNames)
    await super.stop()
  }

  readonly #killNames = (): void => void this.#names.kill('SIGKILL')
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
