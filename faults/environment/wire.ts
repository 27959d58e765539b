/** A message of PostgreSQL's protocol: its type, none for the first one of a client, and all of its bytes. */
export interface WireMessage {
  readonly type: string
  readonly bytes: Buffer
}

/** Cuts a stream of bytes into messages. */
export class WireReader {
  #rest: Buffer = Buffer.alloc(0)
  #typed: boolean

  /** A client's first message has no type; a server's has. */
  constructor(sender: 'client' | 'server') {
    this.#typed = sender === 'server'
  }

  *read(chunk: Buffer): Generator<WireMessage> {
    this.#rest = Buffer.concat([this.#rest, chunk])
    for (;;) {
      const head = this.#typed ? 1 : 0
      if (this.#rest.length < head + 4) return
      const size = head + this.#rest.readUInt32BE(head)
      if (this.#rest.length < size) return
      const bytes = this.#rest.subarray(0, size)
      this.#rest = this.#rest.subarray(size)
      yield { type: this.#typed ? String.fromCharCode(bytes[0]!) : '', bytes }
      this.#typed = true
    }
  }
}

/** The application name in a client's first message. */
export function applicationName({ bytes }: WireMessage): string {
  const parameters = bytes.toString('utf8', 8).split('\0')
  return parameters[parameters.indexOf('application_name') + 1] ?? ''
}

/** What a client asks to run with this message, if it does: a text, or the name of a prepared statement. */
export function statementOf({ type, bytes }: WireMessage): string | undefined {
  if (type === 'Q') return bytes.toString('utf8', 5, bytes.length - 1)
  // Each Bind is followed by one Execute. It names the portal first, then the statement.
  if (type === 'B') return bytes.toString('utf8', 5).split('\0')[1]
  return undefined
}
