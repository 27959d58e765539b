import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { type FindServerOptions, type FoundServer, findServer } from '../../../server/find-server.ts'
import { serverPackage } from '../../../server/server-package.ts'

const MAX_CONNECTIONS = 300
const DOCKER = new URL('../../docker/package.json', import.meta.url)

type ServerSettings = NonNullable<FindServerOptions['settings']>

/**
 * The server of a test run: `DATABASE_URL`, Docker if `SLUICE_TEST_SERVER=docker`, else an embedded one, of the
 * version in `SLUICE_TEST_SERVER=embedded:14`.
 *
 * @param more settings of an embedded one.
 */
export async function findTestServer(more: ServerSettings = {}): Promise<FoundServer> {
  if (!process.env.DATABASE_URL && process.env.SLUICE_TEST_SERVER === 'docker') return startContainer()
  // Nothing here outlives a crash of the server, so nothing needs to reach the disk.
  const settings = { max_connections: MAX_CONNECTIONS, fsync: 'off', full_page_writes: 'off', ...more }
  return findServer({ settings, package: serverPackage(), inMemory: true, fromTemplate: true })
}

async function startContainer(): Promise<FoundServer> {
  const { PostgreSqlContainer } = await importTestcontainers()
  const container = await new PostgreSqlContainer('postgres:17-alpine')
    .withCommand(['postgres', '-c', `max_connections=${MAX_CONNECTIONS}`, '-c', 'fsync=off'])
    .start()
  return { url: container.getConnectionUri(), kind: 'docker', stop: async () => void (await container.stop()) }
}

/** What is used of `@testcontainers/postgresql`, which most test runs do without. */
interface Testcontainers {
  readonly PostgreSqlContainer: new (
    image: string,
  ) => {
    withCommand(command: string[]): { start(): Promise<{ getConnectionUri(): string; stop(): Promise<unknown> }> }
  }
}

async function importTestcontainers(): Promise<Testcontainers> {
  return import(pathToFileURL(locateTestcontainers()).href)
}

function locateTestcontainers(): string {
  try {
    return createRequire(DOCKER).resolve('@testcontainers/postgresql')
  } catch (cause) {
    throw new Error('Testcontainers is not installed: run `npm ci --prefix test/docker`', { cause })
  }
}
