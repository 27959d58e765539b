/**
 * The process that hosts an embedded server: started by `find-server.ts`, it tells its parent the connection string and
 * lives until the parent closes the channel.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { Cluster } from './cluster.ts'
import { givenTemplate } from './cluster-template.ts'
import type { ServerProcessMessage, ServerProcessOrder } from './find-server.ts'
import { freePort } from './free-port.ts'
import { isInstalled } from './programs.ts'

/** Another process can take the port between its choice and the start. */
const ATTEMPTS = 4
const LOG_LINES = 10

const order = JSON.parse(String(process.argv[2])) as ServerProcessOrder
const over = Promise.race(['disconnect', 'SIGTERM', 'SIGINT', 'SIGHUP'].map((event) => once(process, event)))

if (!isInstalled(order.package)) tell({ missing: order.package })
else await host().catch((error: unknown) => tell({ failed: error instanceof Error ? error.message : String(error) }))
process.exit()

async function host(): Promise<void> {
  const template = order.fromTemplate ? givenTemplate() : undefined
  const password = template?.password ?? randomBytes(18).toString('base64url')
  const cluster = await Cluster.create({ package: order.package, inMemory: order.inMemory, password, template })
  try {
    const { server, port } = await start(cluster)
    tell({ url: `postgres://postgres:${password}@127.0.0.1:${port}/postgres` })
    await over
    await stop(server)
  } finally {
    await cluster.remove()
  }
}

async function start(cluster: Cluster): Promise<{ server: ChildProcess; port: number }> {
  for (let attempt = 1; ; attempt++) {
    const port = await freePort()
    const settings = { listen_addresses: '127.0.0.1', unix_socket_directories: '', ...order.settings }
    const server = cluster.spawnServer({ ...settings, port })
    try {
      await ready(server)
      return { server, port }
    } catch (error) {
      if (attempt === ATTEMPTS) throw error
    }
  }
}

/** Resolves when the server takes connections, and rejects with what it said if it ends before. */
async function ready(server: ChildProcess): Promise<void> {
  const log: string[] = []
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.once('close', () => reject(new Error(log.join('\n'))))
    createInterface(server.stderr!).on('line', (line) => {
      if (log.push(line) > LOG_LINES) log.shift()
      if (line.includes('database system is ready to accept connections')) resolve()
    })
  })
}

/** A fast shutdown: connections are ended, and nothing is lost. */
async function stop(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return
  const ended = once(server, 'exit')
  // Windows knows no signals: the server is ended, which is all that its data, deleted now, needs.
  if (process.platform === 'win32') spawn('taskkill', ['/pid', `${server.pid}`, '/f', '/t'])
  else server.kill('SIGINT')
  await ended
}

function tell(message: ServerProcessMessage): void {
  if (process.connected) process.send?.(message)
}
