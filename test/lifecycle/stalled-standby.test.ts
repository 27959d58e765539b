import { expect, test } from 'vitest'
import type { EmbeddedServer } from '../../faults/environment/embedded-server.ts'
import { MIGRATION_LIMITS, migrateWithin } from '../../src/migrate/migrator.ts'
import { createSluice } from '../../src/sluice.ts'
import { SCHEMA_VERSION } from '../../src/table/schema.ts'
import { startRestartableServer } from '../support/servers/restartable-server.ts'
import { startProxy } from '../support/servers/tcp-proxy.ts'
import { Steps } from '../support/steps.ts'
import { waitFor } from '../support/wait.ts'

// From here on every COMMIT that has written something waits for a standby that does not exist.

test('stop ends although a batch and an enqueue wait in COMMIT for a standby', async () => {
  const server = await startRestartableServer()
  const sluice = createSluice({ connection: server.url })
  const steps = new Steps()
  const subscription = sluice.pipeline('q').handle(steps.handle).subscribe()
  await sluice.enqueue(sluice.ownTransaction, 'q', 1)
  const { end } = await steps.next()
  await stallCommits(server)
  end()
  await committing(server, 1)
  const enqueued = expect(sluice.enqueue(sluice.ownTransaction, 'other', 2)).rejects.toMatchObject({
    code: 'COMMIT_FAILED',
  })
  await committing(server, 2)

  await sluice.stop({ timeout: 0 })

  await subscription.ended
  await enqueued
  // Both have taken effect, as after a kill: the server has them, and nobody was told.
  await resumeCommits(server)
  await committing(server, 0)
  expect(await server.sql('SELECT queue FROM sluice.message')).toEqual([{ queue: 'other' }])
})

test('a migration whose COMMIT waits for a standby is not ended by us', async () => {
  const server = await startRestartableServer()
  await server.sql('DROP SCHEMA sluice, sluice_private CASCADE')
  await stallCommits(server)
  const proxy = await startProxy(server.url)
  const migrated = migrateWithin({ ...MIGRATION_LIMITS, silenceMs: 200 }, proxy.url)
  await committing(server, 1)
  const before = proxy.accepted
  await waitFor(() => proxy.accepted >= before + 2, {
    what: 'two questions whether the server works',
  })
  await resumeCommits(server)
  expect(await migrated).toMatchObject({ version: SCHEMA_VERSION })
})

async function stallCommits(server: EmbeddedServer): Promise<void> {
  await server.sql(`ALTER SYSTEM SET synchronous_standby_names = 'nobody'`)
  await reload(server, 'nobody')
}

async function resumeCommits(server: EmbeddedServer): Promise<void> {
  await server.sql('ALTER SYSTEM RESET synchronous_standby_names')
  await reload(server, '')
}

/** The checkpointer tells everybody whether there is somebody to wait for, when it has read the setting itself. */
async function reload(server: EmbeddedServer, names: string): Promise<void> {
  await server.sql('SELECT pg_reload_conf()')
  const shown = async () =>
    (await server.sql<{ names: string }>(`SELECT current_setting('synchronous_standby_names') AS names`))[0]
  await waitFor(async () => (await shown())?.names === names, { what: `synchronous_standby_names to be '${names}'` })
}

async function committing(server: EmbeddedServer, count: number): Promise<void> {
  const waiting = () => server.sql(`SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'`)
  await waitFor(async () => (await waiting()).length === count, {
    what: `${count} COMMITs that wait`,
  })
}
