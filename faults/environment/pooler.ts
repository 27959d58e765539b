import { chmod, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { type Launch, LocalServer } from './local-server.ts'
import { programOnPath } from './program-on-path.ts'

export interface PoolerOptions {
  /** @default 'transaction' */
  readonly mode?: 'session' | 'transaction'
  /** Server connections per database. @default 20 */
  readonly size?: number
  /** Further lines of its configuration, by name. */
  readonly settings?: Readonly<Record<string, string | number>>
}

/** The connections of a pool, as SHOW POOLS counts them. */
export interface PoolCounts {
  readonly clientsActive: number
  readonly clientsWaiting: number
  readonly serversActive: number
  readonly serversIdle: number
}

/** A PgBouncer of one's own in front of a server. */
export class Pooler extends LocalServer {
  /** The server's address through the pooler. */
  readonly url: string

  private constructor(url: URL, port: number, folder: string, launch: Launch) {
    super(port, folder, launch)
    this.url = url.href
  }

  /** Undefined if PgBouncer is not installed. */
  static async start(serverUrl: string, options: PoolerOptions = {}): Promise<Pooler | undefined> {
    const program = await programOnPath('pgbouncer')
    if (program === undefined) return undefined
    const port = await freePort()
    const folder = await temporaryFolder('sluice-pooler-')
    const url = new URL(serverUrl)
    url.host = `127.0.0.1:${port}`
    const user = process.getuid?.() === 0 ? ['-u', 'nobody'] : []
    const args = [...user, join(folder, 'pgbouncer.ini')]
    const pooler = new Pooler(url, port, folder, { program, args, logsTo: 'stderr', upLine: 'process up' })
    try {
      // Started by root it becomes somebody else, who must be able to read this.
      await chmod(folder, 0o755)
      await writeFile(join(folder, 'pgbouncer.ini'), configuration(new URL(serverUrl), port, options))
      await pooler.run()
      return pooler
    } catch (error) {
      await pooler.stop()
      throw error
    }
  }

  /** Ends it without a warning to anybody, and starts it again. */
  async restart(): Promise<void> {
    await this.kill()
    await this.run()
  }

  override async stop(): Promise<void> {
    await this.end('SIGTERM')
    await super.stop()
  }

  /** What the pool of a database looks like now. */
  async counts(database: string): Promise<PoolCounts> {
    const pools = await this.console('SHOW POOLS')
    const pool = pools.find((row) => row.database === database) ?? {}
    return {
      clientsActive: Number(pool.cl_active ?? 0),
      clientsWaiting: Number(pool.cl_waiting ?? 0),
      serversActive: Number(pool.sv_active ?? 0),
      serversIdle: Number(pool.sv_idle ?? 0) + Number(pool.sv_used ?? 0),
    }
  }

  /** A command of PgBouncer's console. */
  async console(command: string): Promise<readonly Record<string, unknown>[]> {
    const url = new URL(this.url)
    url.pathname = '/pgbouncer'
    const client = new pg.Client({ connectionString: url.href })
    // A pooler that is told to end may end this connection too.
    client.on('error', () => undefined)
    await client.connect()
    try {
      return (await client.query<Record<string, unknown>>(command)).rows
    } finally {
      await client.end()
    }
  }
}

/** Whoever connects becomes the server address's user: nobody but tests on this machine ever sees it. */
function configuration(server: URL, port: number, { mode, size, settings }: PoolerOptions): string {
  const target = {
    host: server.hostname,
    port: server.port || '5432',
    user: decodeURIComponent(server.username),
    password: decodeURIComponent(server.password),
  }
  const lines = {
    listen_addr: '127.0.0.1',
    listen_port: port,
    unix_socket_dir: '',
    auth_type: 'any',
    admin_users: target.user,
    pool_mode: mode ?? 'transaction',
    default_pool_size: size ?? 20,
    max_client_conn: 500,
    ...settings,
  }
  return ['[databases]', `* = ${assignments(target, ' ', quoted)}`, '[pgbouncer]', assignments(lines, '\n'), ''].join(
    '\n',
  )
}

function assignments(
  values: Readonly<Record<string, unknown>>,
  between: string,
  write: (value: unknown) => string = String,
): string {
  return Object.entries(values)
    .map(([name, value]) => `${name}=${write(value)}`)
    .join(between)
}

function quoted(value: unknown): string {
  return `'${String(value).replaceAll("'", "''")}'`
}
