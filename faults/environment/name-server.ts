import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { isIPv4 } from 'node:net'

/** An address; or that the name has none of this family, does not exist, cannot be resolved now; or no answer. */
export type Found = { readonly address: string } | 'none' | 'unknown' | 'failure' | 'silence'

/** A name server, which finds what it is told to. */
export class NameServer {
  /** As `setServers` of `node:dns` takes it. */
  readonly address: string
  /** Called with the name in small letters, and whether an IPv4 address is asked for. */
  find: (name: string, isV4: boolean) => Found | Promise<Found> = () => 'unknown'
  readonly #socket: Socket

  private constructor(socket: Socket) {
    this.#socket = socket
    this.address = `127.0.0.1:${socket.address().port}`
    socket.on('message', async (question, { port, address }) => {
      const end = question.indexOf(0, HEAD_BYTES) + 5
      const found = await this.find(nameIn(question), question.readUInt16BE(end - 4) === 1)
      if (found !== 'silence') socket.send(answerTo(question.subarray(0, end), found), port, address)
    })
  }

  static async start(): Promise<NameServer> {
    const socket = createSocket('udp4').bind(0, '127.0.0.1')
    await once(socket, 'listening')
    return new NameServer(socket)
  }

  async stop(): Promise<void> {
    this.#socket.close()
    await once(this.#socket, 'close')
  }
}

const HEAD_BYTES = 12

function nameIn(question: Buffer): string {
  const labels: string[] = []
  for (let at = HEAD_BYTES; question[at]; at += question[at]! + 1)
    labels.push(question.toString('latin1', at + 1, at + 1 + question[at]!))
  return labels.join('.').toLowerCase()
}

function answerTo(question: Buffer, found: Exclude<Found, 'silence'>): Buffer {
  const record = typeof found === 'string' ? [] : [recordOf(found.address)]
  const code = typeof found === 'string' ? CODES[found] : CODES.none
  const head = Buffer.from([question[0]!, question[1]!, 0x81, 0x80 | code, 0, 1, 0, record.length, 0, 0, 0, 0])
  return Buffer.concat([head, question.subarray(HEAD_BYTES), ...record])
}

/** NOERROR, NXDOMAIN and SERVFAIL. */
const CODES = { none: 0, unknown: 3, failure: 2 } as const

/** An answer that points to the name of the question, for no time. */
function recordOf(address: string): Buffer {
  const bytes = isIPv4(address) ? Buffer.from(address.split('.').map(Number)) : v6Bytes(address)
  const type = isIPv4(address) ? 1 : 28
  return Buffer.concat([Buffer.from([0xc0, HEAD_BYTES, 0, type, 0, 1, 0, 0, 0, 0, 0, bytes.byteLength]), bytes])
}

/** Of an address with `::` in it. */
function v6Bytes(address: string): Buffer {
  const [before = [], after = []] = address.split('::').map((half) => half.split(':').filter((group) => group !== ''))
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  return Buffer.from([...before, ...zeros, ...after].map((group) => group.padStart(4, '0')).join(''), 'hex')
}
