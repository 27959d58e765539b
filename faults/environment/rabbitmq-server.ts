import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { ErlangNames } from './erlang-names.ts'
import { type Launch, LocalServer } from './local-server.ts'
import { programOnPath } from './program-on-path.ts'

/** What a server is made with. */
export interface RabbitmqMaking {
  /** Of its node, in front of the host. */
  readonly name: string
  /** Those in which it enters its node. */
  readonly names: ErlangNames
  /** Lines of its `rabbitmq.conf`. */
  readonly settings?: readonly string[]
}

/** A RabbitMQ server. */
export class RabbitmqServer extends LocalServer {
  /** Of Erlang. Servers of a cluster know each other by it. */
  readonly node: string
  readonly #environment: NodeJS.ProcessEnv
  /** What ends with it. */
  readonly #onStop: () => void

  private constructor(launch: Launch, port: number, folder: string, node: string, onStop: () => void) {
    super(port, folder, launch)
    this.node = node
    this.#environment = launch.environment ?? {}
    this.#onStop = onStop
  }

  /** @returns undefined if RabbitMQ is not installed */
  static async start(settings: readonly string[] = []): Promise<RabbitmqServer | undefined> {
    const names = await ErlangNames.start()
    const server = await RabbitmqServer.make({ name: 'sluice', names, settings }, names.stop)
    if (server === undefined) names.stop()
    await server?.run()
    return server
  }

  /**
   * One that does not run yet.
   *
   * @returns undefined if RabbitMQ is not installed
   */
  static async make(
    { name, names, settings = [] }: RabbitmqMaking,
    onStop: () => void = () => undefined,
  ): Promise<RabbitmqServer | undefined> {
    const program = await programOnPath('rabbitmq-server', DEBIAN)
    if (program === undefined) return undefined
    const folder = await temporaryFolder('sluice-rabbitmq-')
    const [port, distributionPort] = [await freePort(), await freePort()]
    await writeFile(join(folder, 'rabbitmq.conf'), [`listeners.tcp.1 = 127.0.0.1:${port}`, ...settings, ''].join('\n'))
    await writeFile(join(folder, '.erlang.cookie'), COOKIE, { mode: 0o400 })
    const node = `${name}@localhost`
    const environment = { ...names.environment, ...environmentIn(folder, node, distributionPort) }
    const launch = { program, args: [], environment, logsTo: 'stdout', upLine: 'Server startup complete' } as const
    return new RabbitmqServer(launch, port, folder, node, onStop)
  }

  get url(): string {
    return `amqp://127.0.0.1:${this.port}`
  }

  /** Whether it has too little memory, and so blocks the connections that publish. */
  async beShortOfMemory(isShort: boolean): Promise<void> {
    await this.#evaluate(`vm_memory_monitor:set_vm_memory_high_watermark(${isShort ? '0.0000001' : '0.8'})`)
  }

  /** Adds a login for its vhost `/`, which may neither configure, write to nor read from anything, and no other vhost. */
  async addLoginWithoutRights(name: string, password: string): Promise<void> {
    const nothing = '<<"^$">>'
    await this.#evaluate(`rabbit_auth_backend_internal:add_user(<<"${name}">>, <<"${password}">>, <<"test">>),
      rabbit_auth_backend_internal:set_permissions(<<"${name}">>, <<"/">>, ${nothing}, ${nothing}, ${nothing}, <<"test">>)`)
  }

  /** Ends it as a system does that shuts down, and starts it again. */
  async restart(): Promise<void> {
    await this.end('SIGTERM')
    await this.run()
  }

  /** @param expressions of Erlang, without the dot at the end */
  async #evaluate(expressions: string): Promise<void> {
    const ran = promisify(execFile)('erl_call', ['-sname', this.node, '-c', COOKIE, '-e'], { env: this.#environment })
    ran.child.stdin?.end(`${expressions}.\n`)
    const { stdout } = await ran
    if (!stdout.startsWith('{ok, ok}')) throw new Error(stdout)
  }

  override async stop(): Promise<void> {
    await this.kill()
    this.#onStop()
    await super.stop()
  }
}

/** Nothing outside of the folder is read or written, and nobody but this machine reaches it. */
function environmentIn(folder: string, node: string, distributionPort: number): NodeJS.ProcessEnv {
  return {
    HOME: folder,
    RABBITMQ_NODENAME: node,
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
/** Two programs of Erlang talk to each other if they have the same. */
const COOKIE = 'sluice'
