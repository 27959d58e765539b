import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'
import { migrate } from '../../../src/migrate/migrate.ts'
import { waitFor } from '../wait.ts'
import { databaseUrl } from './database-url.ts'
import { openPool } from './pool.ts'

/** A database of one test file's own. */
export interface TestDatabase extends AsyncDisposable {
  readonly url: string
  readonly pool: pg.Pool
  /** The rows of one statement. */
  sql<Row extends pg.QueryResultRow = pg.QueryResultRow>(text: string, params?: readonly unknown[]): Promise<Row[]>
}

export interface TestDatabaseOptions {
  /** With schema "sluice" in it. Default true. */
  readonly migrated?: boolean
  /** As CREATE DATABASE takes it. Such a database is not migrated. Default: the server's. */
  readonly encoding?: string
  /** A database to clone, to which nobody is connected. Default: the migrated one of the test run. */
  readonly template?: TestDatabase
  /** Default: the server of the test run. */
  readonly serverUrl?: string
}

/** Creates a database, by default with the schema, to be dropped with whoever is still connected to it. */
export async function createTestDatabase({
  migrated = true,
  encoding,
  template,
  serverUrl = inject('serverUrl'),
}: TestDatabaseOptions = {}): Promise<TestDatabase> {
  const name = `sluice_test_${randomBytes(6).toString('hex')}`
  const options = encoding === undefined ? '' : ` ENCODING '${encoding}' LC_COLLATE 'C' LC_CTYPE 'C'`
  const hasTemplate = serverUrl === inject('serverUrl') || inject('everyServerHasTemplate')
  const isLikeOthers = migrated && encoding === undefined && hasTemplate
  const cloned = template === undefined ? isLikeOthers && inject('templateDatabase') : nameOf(template)
  await create(serverUrl, name, (cloned || 'template0') + options)
  const url = databaseUrl(serverUrl, name)
  if (migrated && encoding === undefined && !cloned) await migrate(url)
  const pool = openPool({ connectionString: url })
  return {
    url,
    pool,
    sql: async <Row extends pg.QueryResultRow>(text: string, params: readonly unknown[] = []) =>
      (await pool.query<Row>(text, [...params])).rows,
    [Symbol.asyncDispose]: async () => {
      await onServer(serverUrl, (client) => client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`))
      await pool.end()
    },
  }
}

function nameOf({ url }: TestDatabase): string {
  return new URL(url).pathname.slice(1)
}

async function create(serverUrl: string, name: string, template: string): Promise<void> {
  await onServer(serverUrl, async (client) => {
    const attempt = () =>
      client.query(`CREATE DATABASE ${name} TEMPLATE ${template}`).then(
        () => true,
        (error: unknown) => {
          if (error instanceof pg.DatabaseError && error.code === TEMPLATE_IN_USE) return false
          throw error
        },
      )
    await waitFor(attempt, { what: `the template database ${template} to be free`, timeoutMs: 30_000 })
  })
}

const TEMPLATE_IN_USE = '55006'

async function onServer(connectionString: string, work: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString })
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
