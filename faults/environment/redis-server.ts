import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { LocalServer } from './local-server.ts'
import { programOnPath } from './program-on-path.ts'

/** A Redis server that syncs each write to the disk. */
export class RedisServer extends LocalServer {
  /** @param args further arguments. Undefined if Redis is not installed. */
  static async start(args: readonly string[] = []): Promise<RedisServer | undefined> {
    const program = await programOnPath('redis-server')
    if (program === undefined) return undefined
    const [folder, port] = [await temporaryFolder('sluice-redis-'), await freePort()]
    const place = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder]
    const disk = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '']
    const upLine = 'Ready to accept connections'
    const server = new RedisServer(port, folder, {
      program,
      args: [...place, ...disk, ...args],
      logsTo: 'stdout',
      upLine,
    })
    await server.run()
    return server
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }
}
