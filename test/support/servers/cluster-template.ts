import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import { EmbeddedServer } from '../../../faults/environment/embedded-server.ts'
import { giveTemplate } from '../../../server/cluster-template.ts'
import { migrate } from '../../../src/migrate/migrate.ts'

/** Whether the servers of the test run are copies of one: they are embedded, and the machine has `cp`. */
export function hasClusterTemplate(): boolean {
  const { DATABASE_URL, SLUICE_TEST_SERVER } = process.env
  return !DATABASE_URL && SLUICE_TEST_SERVER !== 'docker' && process.platform !== 'win32'
}

/**
 * Makes the cluster that all servers of the test run begin as copies of, with a migrated database to which nobody connects.
 * Returns how to delete it.
 */
export async function makeClusterTemplate(database: string): Promise<() => Promise<void>> {
  const server = await EmbeddedServer.create(SETTINGS)
  try {
    await server.start()
    // A server that is a copy has nothing to do when its own database is migrated.
    await migrate(server.url)
    await server.sql(`CREATE DATABASE ${database} TEMPLATE postgres`)
    await hashPasswordOnce(server)
    await server.stop()
  } catch (error) {
    await server.remove()
    throw error
  }
  giveTemplate(server.template)
  // A run that is interrupted deletes nothing else, and this may be in memory.
  const removeAtExit = () => rmSync(dirname(server.folder), { recursive: true, force: true })
  process.once('exit', removeAtExit)
  return async () => {
    process.off('exit', removeAtExit)
    giveTemplate(undefined)
    await server.remove()
  }
}

/** Little of the log is left to copy. */
const SETTINGS = { autovacuum: 'off', min_wal_size: '2MB', max_wal_size: '2MB' }

/**
 * From version 16 on. The client of each connection hashes the password again, by default 4,096 times, which takes longer than
 * many a test's statements.
 */
async function hashPasswordOnce(server: EmbeddedServer): Promise<void> {
  const [row] = await server.sql<{ version: number }>(
    `SELECT current_setting('server_version_num')::integer AS version`,
  )
  if (row!.version < 160_000) return
  await server.sql(`SET scram_iterations = 1; ALTER ROLE postgres PASSWORD '${server.template.password}'`)
}
