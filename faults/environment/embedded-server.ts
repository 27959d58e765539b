import { type ChildProcess, execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import pg from 'pg'
import { Cluster } from '../../server/cluster.ts'
import { type ClusterTemplate, givenTemplate } from '../../server/cluster-template.ts'
import { freePort } from '../../server/free-port.ts'
import { serverPackage } from '../../server/server-package.ts'

export type ServerSettings = Readonly<Record<string, string | number>>

/** Waits for its clients to go; ends them; or drops everything, to recover at the next start. */
export type StopMode = 'smart' | 'fast' | 'immediate'

/** A server of one's own, on a port and in a folder that it keeps, which can be brought down in every way. */
export class EmbeddedServer {
  readonly url: string
  readonly port: number
  readonly #cluster: Cluster
  readonly #password: string
  readonly #settings: ServerSettings
  readonly #log: string[] = []
  #process: ChildProcess | undefined
  #ready = Promise.withResolvers<void>()

  private constructor(cluster: Cluster, password: string, port: number, settings: ServerSettings) {
    this.#cluster = cluster
    this.#password = password
    this.#settings = settings
    this.port = port
    this.url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`
    process.once('exit', this.#killAtExit)
  }

  /** Makes one, without starting it: a copy of the template, if one was given. */
  static async create(settings: ServerSettings = {}): Promise<EmbeddedServer> {
    const template = givenTemplate()
    const password = template?.password ?? randomBytes(18).toString('base64url')
    const cluster = await Cluster.create({
      package: serverPackage(),
      password,
      initdb: ['--wal-segsize=1'],
      inMemory: true,
      template,
    })
    return new EmbeddedServer(cluster, password, await freePort(), settings)
  }

  /** Of its data. */
  get folder(): string {
    return this.#cluster.data
  }

  /** For further servers, while this one does not run. */
  get template(): ClusterTemplate {
    return { data: this.folder, password: this.#password }
  }

  /** A second server with the same data, neither of them started: the first must have stopped gracefully. */
  async copy(settings: ServerSettings): Promise<EmbeddedServer> {
    return new EmbeddedServer(await this.#cluster.copy(), this.#password, await freePort(), settings)
  }

  /** Starts it, and resolves when it takes connections. */
  async start(): Promise<void> {
    this.#ready = Promise.withResolvers()
    const child = this.#cluster.spawnServer({ ...SETTINGS, ...this.#settings, port: this.port })
    this.#process = child
    createInterface(child.stderr!).on('line', (line) => this.#logged(line))
    child.once('error', (error) => this.#ready.reject(error))
    child.once('exit', () => this.#ready.reject(new Error(`The server ended:\n${this.#log.join('\n')}`)))
    this.#ready.promise.catch(() => undefined)
    await this.#ready.promise
  }

  async stop(mode: StopMode = 'fast'): Promise<void> {
    await this.#end((server) => server.kill(SIGNALS[mode]))
  }

  async restart(mode: StopMode = 'fast'): Promise<void> {
    await this.stop(mode)
    await this.start()
  }

  /** Ends all its processes between two instructions. Nobody is told, and nothing is written. */
  async kill(): Promise<void> {
    await this.#end(async (server) => {
      // A stopped postmaster starts nobody while the others die. Its own immediate end leaves no shared memory behind.
      server.kill('SIGSTOP')
      for (const pid of await childrenOf(server.pid)) killIfThere(pid)
      server.kill('SIGQUIT')
      server.kill('SIGCONT')
    })
  }

  /** Kills one of its processes, upon which it ends all connections and recovers. Resolves when it takes new ones. */
  async crash(): Promise<void> {
    const [row] = await this.sql<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`,
    )
    this.#ready = Promise.withResolvers()
    process.kill(row!.pid, 'SIGKILL')
    await this.#ready.promise
  }

  /** The rows of one statement, on a connection of its own. */
  async sql<Row extends pg.QueryResultRow = pg.QueryResultRow>(
    text: string,
    params: readonly unknown[] = [],
  ): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.url })
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Row>(text, [...params])).rows
    } finally {
      await client.end()
    }
  }

  /** Ends it, if it runs, and deletes its data. */
  async remove(): Promise<void> {
    await this.stop('immediate')
    process.off('exit', this.#killAtExit)
    await this.#cluster.remove()
  }

  readonly #killAtExit = (): void => void this.#process?.kill('SIGQUIT')

  #logged(line: string): void {
    if (this.#log.push(line) > LOG_LINES) this.#log.shift()
    if (/ready to accept (read-only )?connections/.test(line)) this.#ready.resolve()
  }

  async #end(bringDown: (server: ChildProcess) => unknown): Promise<void> {
    const server = this.#process
    this.#process = undefined
    if (server?.pid === undefined || server.exitCode !== null || server.signalCode !== null) return
    const ended = once(server, 'exit')
    await bringDown(server)
    await ended
  }
}

const LOG_LINES = 30
const SIGNALS = { smart: 'SIGTERM', fast: 'SIGINT', immediate: 'SIGQUIT' } as const

/** A killed process loses nothing that the operating system has: only a machine that loses its power needs fsync. */
const SETTINGS: ServerSettings = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  lc_messages: 'C',
  fsync: 'off',
  shared_buffers: '16MB',
  max_connections: 100,
}

async function childrenOf(parent: number | undefined): Promise<readonly number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'pid=,ppid='])
  const pairs = stdout.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  return pairs.flatMap(([pid, ppid]) => (pid !== undefined && ppid === parent ? [pid] : []))
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has just ended by itself.
  }
}
