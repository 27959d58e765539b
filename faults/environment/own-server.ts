import type { Environment } from '../run/environment.ts'
import { EmbeddedServer, type ServerSettings } from './embedded-server.ts'

export interface OwnServer extends Environment {
  readonly server: EmbeddedServer
}

/** A server that a scenario has for itself, and may bring down. */
export async function ownServer(settings: ServerSettings = {}): Promise<OwnServer> {
  const server = await EmbeddedServer.create(settings)
  try {
    await server.start()
  } catch (error) {
    await server.remove()
    throw error
  }
  return { server, url: server.url, ledgerUrl: server.url, stop: () => server.remove() }
}
