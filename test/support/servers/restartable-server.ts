import { onTestFinished } from 'vitest'
import { EmbeddedServer, type ServerSettings } from '../../../faults/environment/embedded-server.ts'
import { migrate } from '../../../src/migrate/migrate.ts'

/** A server of a test's own, with the schema, that can be restarted under its clients. */
export async function startRestartableServer(settings: ServerSettings = {}): Promise<EmbeddedServer> {
  const server = await EmbeddedServer.create(settings)
  onTestFinished(() => server.remove())
  await server.start()
  await migrate(server.url)
  return server
}
