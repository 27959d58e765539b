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

/** For samples that last longer than a checkpoint is away: when it comes is left to the server. */
const { max_wal_size, min_wal_size, checkpoint_timeout, ...LONG_SETTINGS } = SETTINGS

/** Shown with the results, whoever has set them. */
const SHOWN = [...Object.keys(SETTINGS), 'wal_level', 'commit_delay', 'autovacuum', 'jit', 'work_mem']

/** A database of the run's own, and an open connection to it. */
export interface BenchDatabase {
  readonly url: string
  readonly client: pg.Client
}

export interface BenchServer {
  /** The database of that name, made when it is first asked for. Default: the one that most contestants share. */
  database(name?: string): Promise<BenchDatabase>
  readonly kind: string
  readonly version: string
  readonly settings: Readonly<Record<string, string>>
  stop(): Promise<void>
}

/** A server, and in it databases of this run's own. @param long with checkpoints as they come */
export async function startServer(long?: true): Promise<BenchServer> {
  const server = await findServer({ settings: long ? LONG_SETTINGS : SETTINGS })
  const databases = new Databases(server.url)
  try {
    const { client } = await databases.get('')
    return {
      database: (name = '') => databases.get(name),
      kind: server.kind,
      ...(await describe(client)),
      stop: async () => {
        await databases.drop()
        await server.stop()
      },
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

class Databases {
  readonly #serverUrl: string
  readonly #prefix = `sluice_bench_${randomBytes(4).toString('hex')}`
  readonly #made = new Map<string, BenchDatabase>()

  constructor(serverUrl: string) {
    this.#serverUrl = serverUrl
  }

  async get(name: string): Promise<BenchDatabase> {
    const made = this.#made.get(name)
    if (made !== undefined) return made
    const url = new URL(this.#serverUrl)
    url.pathname = this.#fullName(name)
    await withClient(this.#serverUrl, (other) => other.query(`CREATE DATABASE ${this.#fullName(name)}`))
    const database = { url: url.href, client: await connect(url.href) }
    this.#made.set(name, database)
    await database.client.query(CREATE_EFFECTS)
    return database
  }

  async drop(): Promise<void> {
    for (const [name, { client }] of this.#made) {
      await client.end()
      await withClient(this.#serverUrl, (other) => other.query(`DROP DATABASE ${this.#fullName(name)} WITH (FORCE)`))
    }
  }

  #fullName(name: string): string {
    return name === '' ? this.#prefix : `${this.#prefix}_${name}`
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
