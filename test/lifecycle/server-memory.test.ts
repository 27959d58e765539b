import pg from 'pg'
import { expect, test } from 'vitest'
import type { EmbeddedServer } from '../../faults/environment/embedded-server.ts'
import { versionOf } from '../../server/server-package.ts'
import { executeOn } from '../../src/connection/open-client.ts'
import { claim } from '../../src/table/claim/claim.ts'
import { startRestartableServer } from '../support/servers/restartable-server.ts'

const ENDS: Readonly<Record<string, (server: EmbeddedServer) => Promise<void>>> = {
  'the crash of one process': (server) => server.crash(),
  'a graceful restart': (server) => server.restart(),
  'an immediate shutdown': (server) => server.restart('immediate'),
}

test.skipIf(versionOf() === '14')(
  'what claims know a server by is the same for all sessions, and another after each end of its memory',
  async () => {
    const server = await startRestartableServer()
    const seen = [await memoryOf(server)]
    for (const [what, end] of Object.entries(ENDS)) {
      expect(await memoryOf(server)).toBe(seen.at(-1))
      await end(server)
      const now = await memoryOf(server)
      expect(now, what).toMatch(/^\d+\/\d+$/)
      expect(seen, what).not.toContain(now)
      seen.push(now)
    }
  },
)

/** As a claim in a session of its own tells it. */
async function memoryOf(server: EmbeddedServer): Promise<string> {
  const client = new pg.Client({ connectionString: server.url })
  await client.connect()
  try {
    return (await claim(executeOn(client), 'q', [], 1)).memory
  } finally {
    await client.end()
  }
}
