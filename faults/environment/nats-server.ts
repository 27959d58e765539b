import { freePort } from '../../server/free-port.ts'
import { temporaryFolder } from '../../server/temporary-folder.ts'
import { LocalServer } from './local-server.ts'
import { programOnPath } from './program-on-path.ts'

/** A NATS server with JetStream. */
export class NatsServer extends LocalServer {
  /** One server, perhaps with further arguments. Undefined if NATS is not installed. */
  static async start(args: readonly string[] = []): Promise<NatsServer | undefined> {
    const server = await NatsServer.make(args)
    await server?.run()
    return server
  }

  /** One server with further arguments, which does not run yet. Undefined if NATS is not installed. */
  static async make(args: readonly string[]): Promise<NatsServer | undefined> {
    const program = await programOnPath('nats-server')
    if (program === undefined) return undefined
    const [folder, port] = [await temporaryFolder('sluice-nats-'), await freePort()]
    const place = ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', folder]
    const launch = { program, args: [...place, ...args], logsTo: 'stderr', upLine: 'Server is ready' } as const
    return new NatsServer(port, folder, launch)
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }
}
