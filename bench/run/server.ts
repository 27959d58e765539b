import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { findServer } from '../../server/find-server.ts'
import { CREATE_EFFECTS } from '../effects.ts'

/** Durable, as in production; large enough that no checkpoint falls into a sample. A server of DATABASE_URL has its own. */
const SETTINGS = {
  synchronous_commit: 'on',
  fsync: 'on',
  full_page_writes: 'on',
  shared_buffers: '512MB',
  max_wal_size: '16GB',
  min_wal_size: '2GB',
  checkpoint_timeout: '1h',
  max_connections: 200,
} as const

/** Shown with the results, whoever has set them. */
const SHOWN = [...Object.keys(SETTINGS), 'wal_level', 'commit_delay', 'autovacuum', 'jit', 'work_mem']

export interface BenchServer {
  /** A connection string for a database of this run. */
  readonly url: string
  /** An open connection to it. */
  readonly client: pg.Client
  readonly kind: string
  readonly version: string
  readonly settings: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** A server, and in it a database of this run's own. */
export async function startServer(): Promise<BenchServer> {
  const server = await findServer({ settings: SETTINGS })
  try {
    const database = `sluice_bench_${randomBytes(4).toString('hex')}`
    await withClient(server.url, (other) => other.query(`CREATE DATABASE ${database}`))
    const url = new URL(server.url)
    url.pathname = database
    const client = await connect(url.href)
    await client.query(CREATE_EFFECTS)
    return {
      url: url.href,
      client,
      kind: server.kind,
      ...(await describe(client)),
      stop: async () => {
        await client.end()
        await withClient(server.url, (other) => other.query(`DROP DATABASE ${database} WITH (FORCE)`))
        await server.stop()
      },
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

async function connect(url: string): Promise<pg.Client> {
  const client = new pg.Client(url)
  client.on('error', () => undefined)
  await client.connect()
  return client
}

async function withClient(url: string, use: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = await connect(url)
  try {
    await use(client)
  } finally {
    await client.end()
  }
}

async function describe(client: pg.Client): Promise<Pick<BenchServer, 'version' | 'settings'>> {
  const settings = await client.query<{ name: string; value: string }>(
    'SELECT name, current_setting(name) AS value FROM pg_settings WHERE name = ANY ($1) ORDER BY name',
    [SHOWN],
  )
  const version = await client.query<{ version: string }>('SELECT version()')
  return {
    version: version.rows[0]?.version ?? 'unknown',
    settings: Object.fromEntries(settings.rows.map(({ name, value }) => [name, value])),
  }
}
