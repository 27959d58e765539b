import pg from 'pg'
import { onTestFinished } from 'vitest'
import { EmbeddedServer } from '../../../faults/environment/embedded-server.ts'
import { migrate } from '../../../src/migrate/migrate.ts'
import { waitFor } from '../wait.ts'

/** A server whose standby never answers: only who asks for it waits. */
export async function startServerWithoutStandby(): Promise<EmbeddedServer> {
  const server = await EmbeddedServer.create({ synchronous_standby_names: 'nobody', synchronous_commit: 'local' })
  onTestFinished(() => server.remove())
  await server.start()
  await migrate(server.url)
  return server
}

/** Commits a notification and waits for the standby, with the server's lock for NOTIFY in hand. Returns how to end it. */
export async function holdNotifyLock(server: EmbeddedServer): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: server.url })
  client.on('error', () => undefined)
  onTestFinished(() => client.end())
  await client.connect()
  await client.query('SET synchronous_commit = on; BEGIN')
  const { rows } = await client.query<{ pid: number }>(
    `SELECT pg_backend_pid() AS pid, pg_logical_emit_message(true, 'stalled', ''), pg_notify('stalled', '')`,
  )
  const committed = client.query('COMMIT').catch(() => undefined)
  const waits = `SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'SyncRep'`
  await waitFor(async () => (await server.sql(waits, [rows[0]!.pid])).length > 0, { what: 'the commit to hang' })
  return async () => {
    await server.sql('SELECT pg_cancel_backend($1)', [rows[0]!.pid])
    await committed
  }
}
