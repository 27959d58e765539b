import { Socket } from 'node:net'
import type pg from 'pg'
import { applicationName, WireReader } from '../../../faults/environment/wire.ts'

/**
 * Connections whose session is ended by the server while they say goodbye: behind the goodbye, and before the answer to
 * it, which is the end of the stream, comes the error that the server sends to those it ends. A server that is shut down
 * and a database that is dropped do that, to whoever closes just then.
 */
export class LastWords {
  /** The application names of those that were told. */
  readonly told: string[] = []
  readonly #closed: Promise<void>[] = []

  connection(url: string): pg.ClientConfig {
    return { connectionString: url, stream: () => this.#open() }
  }

  /** Resolves when all connections are closed. */
  async closed(): Promise<void> {
    await Promise.all(this.#closed)
  }

  #open(): Socket {
    const socket = new Socket()
    this.#closed.push(new Promise((resolve) => socket.once('close', () => resolve())))
    const client = new WireReader('client')
    let application = ''
    // Not before: connect() puts the prototype's method back.
    socket.once('connect', () => {
      const { write } = socket
      socket.write = ((...args: unknown[]) => {
        for (const message of Buffer.isBuffer(args[0]) ? client.read(args[0]) : []) {
          if (message.type === '') application = applicationName(message)
          if (message.type === 'X') setImmediate(() => this.#tell(socket, application))
        }
        return Reflect.apply(write, socket, args)
      }) as typeof socket.write
    })
    return socket
  }

  #tell(socket: Socket, application: string): void {
    this.told.push(application)
    socket.push(TERMINATED)
  }
}

/** An ErrorResponse: what a session is sent that the server ends. */
const TERMINATED = errorResponse({
  S: 'FATAL',
  V: 'FATAL',
  C: '57P01',
  M: 'terminating connection due to administrator command',
})

function errorResponse(fields: Readonly<Record<string, string>>): Buffer {
  const texts = Object.entries(fields).map(([type, text]) => `${type}${text}\0`)
  const body = Buffer.from(`${texts.join('')}\0`)
  const head = Buffer.from('E\0\0\0\0')
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
