import { Socket } from 'node:net'
import type pg from 'pg'
import { applicationName, statementOf, type WireMessage, WireReader } from '../../../faults/environment/wire.ts'

/**
 * What the connections of this process send to the server, in flushes.
 *
 * A **round trip** begins when a connection sends a request (a simple query, or a Sync) after it has read the
 * ReadyForQuery of one that it sent in the round trip before: the request may have waited for that answer. All that it
 * sends before it has read such an answer is the same **flush**, and costs one round trip in all, however many packets
 * it takes. So there are as many round trips as flushes, and as many as the longest chain of requests of which each
 * could wait for the one before. Connecting and ending are not counted. Bytes are seen where the driver writes and
 * reads them, and not in between, so what is counted does not depend on how fast anything is.
 */
export class WireLog {
  readonly #wires: Wire[] = []
  readonly #quiet: (() => void)[] = []
  readonly #hearers: (() => void)[] = []

  /** How to connect to a database so that it is seen. */
  connection(url: string): pg.ClientConfig {
    return { connectionString: url, stream: () => this.#open() }
  }

  /** What the connections with this application name have sent since the last {@link clear}, flush by flush. */
  flushes(application: string): readonly (readonly string[])[] {
    return this.#wires.filter((wire) => wire.application === application).flatMap((wire) => wire.flushes)
  }

  /** The types of the messages, each a letter of the protocol, that one connection has sent and read since the last {@link clear}. */
  messages(application: string): { readonly sent: string; readonly read: string } {
    const wire = this.#wires.find((one) => one.application === application)
    return { sent: wire?.sentTypes ?? '', read: wire?.readTypes ?? '' }
  }

  clear(): void {
    for (const wire of this.#wires) wire.clear()
  }

  /** Resolves when the server has answered all, and nothing was sent in return. */
  async quiet(): Promise<void> {
    for (let turns = 0; turns < 3; turns++) {
      await new Promise(setImmediate)
      if (!this.#wires.some((wire) => wire.waiting)) continue
      turns = 0
      await new Promise<void>((resolve) => this.#quiet.push(resolve))
    }
  }

  /** Resolves when a connection with this application name has been notified, at least once since the last {@link clear}. */
  async notified(application: string): Promise<void> {
    const isNotified = (wire: Wire) => wire.application === application && wire.readTypes.includes('A')
    while (!this.#wires.some(isNotified)) await new Promise<void>((resolve) => this.#hearers.push(resolve))
  }

  #open(): Socket {
    const socket = new Socket()
    const wire = new Wire()
    this.#wires.push(wire)
    const fromClient = new WireReader('client')
    const fromServer = new WireReader('server')
    // Not before: connect() puts the prototype's method back.
    socket.once('connect', () => {
      const { write } = socket
      socket.write = ((...args: unknown[]) => {
        if (Buffer.isBuffer(args[0])) for (const message of fromClient.read(args[0])) wire.sent(message)
        return Reflect.apply(write, socket, args)
      }) as typeof socket.write
    })
    const answered = () => {
      if (!this.#wires.some(({ waiting }) => waiting)) for (const resolve of this.#quiet.splice(0)) resolve()
    }
    socket.on('data', (chunk: Buffer) => {
      for (const message of fromServer.read(chunk)) wire.received(message)
      answered()
      for (const hear of this.#hearers.splice(0)) hear()
    })
    socket.on('close', () => {
      wire.closed()
      answered()
    })
    return socket
  }
}

class Wire {
  application = ''
  flushes: string[][] = []
  sentTypes = ''
  readTypes = ''
  /** Which round trip each unanswered request belongs to. */
  #unanswered: number[] = []
  /** The last round trip of which an answer has been read. */
  #answered = 0
  #trip = 0
  /** The last text that was sent to be parsed: an unnamed statement that is executed is this one. */
  #parsed = ''
  #starting = true

  get waiting(): boolean {
    return this.#starting || this.#unanswered.length > 0
  }

  clear(): void {
    this.flushes = []
    this.sentTypes = ''
    this.readTypes = ''
  }

  closed(): void {
    this.#starting = false
    this.#unanswered = []
  }

  sent(message: WireMessage): void {
    this.sentTypes += message.type
    if (message.type === '') this.application = applicationName(message)
    if (message.type === 'P') this.#parsed = message.bytes.toString('utf8', 5).split('\0')[1] ?? ''
    const text = statementOf(message)
    if (text === undefined && message.type !== 'S') return
    if (this.#answered === this.#trip) this.#begin()
    if (text !== undefined) this.flushes.at(-1)?.push(label(text === '' ? this.#parsed : text))
    if (message.type !== 'B') this.#unanswered.push(this.#trip)
  }

  received({ type }: WireMessage): void {
    this.readTypes += type
    if (type !== 'Z') return
    if (this.#starting) this.#starting = false
    else this.#answered = this.#unanswered.shift() ?? this.#answered
  }

  #begin(): void {
    this.#trip += 1
    this.flushes.push([])
  }
}

/** The name of a prepared statement of ours, without its prefix and its hash, or the first word of each command of a query. */
function label(text: string): string {
  if (text.startsWith('sluice_')) return text.slice('sluice_'.length).replace(/_[0-9a-f]{8}$/, '')
  return text
    .split(';')
    .map((command) => /^\s*(?:ROLLBACK TO|\w+)/i.exec(command)?.[0].trim() ?? '?')
    .join('; ')
}
