import { randomBytes } from 'node:crypto'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { givenTemplate } from '../../server/cluster-template.ts'
import { migrate } from '../../src/migrate/migrate.ts'
import { hasClusterTemplate, makeClusterTemplate } from './servers/cluster-template.ts'
import { databaseUrl } from './servers/database-url.ts'
import { findTestServer } from './servers/server.ts'

declare module 'vitest' {
  interface ProvidedContext {
    serverUrl: string
    /** 170004 for 17.4. */
    serverVersion: number
    /** A migrated database that nobody connects to, to clone. */
    templateDatabase: string
    /** Not that of serverUrl alone: a server that a test file has for itself has the template database too. */
    everyServerHasTemplate: boolean
  }
}

/** One server per run, and one migrated template database. Servers of a test file's own have it too, if they are embedded. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const template = hasClusterTemplate() ? 'sluice_template' : `sluice_template_${randomBytes(6).toString('hex')}`
  // The projects of a run share it.
  const removeCluster =
    hasClusterTemplate() && givenTemplate() === undefined ? await makeClusterTemplate(template) : undefined
  const server = await findTestServer()
  try {
    if (!hasClusterTemplate()) {
      await execute(server.url, `CREATE DATABASE ${template}`)
      await migrate(databaseUrl(server.url, template))
    }
    const rows = await execute(server.url, `SELECT current_setting('server_version_num')::integer AS version`)
    project.provide('serverVersion', Number(rows[0]?.version))
  } catch (error) {
    await server.stop()
    throw error
  }
  project.provide('serverUrl', server.url)
  project.provide('templateDatabase', template)
  project.provide('everyServerHasTemplate', hasClusterTemplate())
  return async () => {
    if (server.kind === 'DATABASE_URL') await execute(server.url, `DROP DATABASE ${template} WITH (FORCE)`)
    await server.stop()
    await removeCluster?.()
  }
}

async function execute(url: string, text: string): Promise<readonly Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query<Record<string, unknown>>(text)).rows
  } finally {
    await client.end()
  }
}
