import type { Socket } from 'node:net'
import type { Writer } from '@platformatic/kafka'
import { codeOf, PLAIN } from './fake-kafka-protocol.ts'

/** A request of a login. `again`: on a connection that has logged in. */
export type LoginStep = 'handshake' | 'password' | 'handshake again' | 'password again'
/** A connection that is reset, or an answer to a request that there was not. */
export type LoginFault = 'reset' | 'stray answer'

/** The logins of the connections of a fake Kafka, by SASL. */
export class FakeKafkaLogin {
  /** After how long a connection must log in again. 0: never. */
  sessionMs = 0
  /** What goes wrong at each step. */
  readonly faults = new Map<LoginStep, LoginFault>()
  /** How often something has gone wrong. */
  broken = 0
  readonly #loggedIn = new WeakSet<Socket>()

  handshake(socket: Socket, answer: Writer): Writer | undefined {
    return this.#unlessBroken('handshake', socket, () =>
      answer.appendInt16(0).appendArray(['PLAIN'], (w, name) => w.appendString(name, false), ...PLAIN),
    )
  }

  /** Version 1. */
  authenticate(socket: Socket, answer: Writer, refusal = 'NONE'): Writer | undefined {
    return this.#unlessBroken('password', socket, () => {
      this.#loggedIn.add(socket)
      return answer
        .appendInt16(codeOf(refusal))
        .appendString(null, false)
        .appendBytes(Buffer.alloc(0), false)
        .appendInt64(BigInt(this.sessionMs))
    })
  }

  #unlessBroken(step: 'handshake' | 'password', socket: Socket, answer: () => Writer): Writer | undefined {
    const fault = this.faults.get(this.#loggedIn.has(socket) ? `${step} again` : step)
    if (fault === undefined) return answer()
    this.broken++
    if (fault === 'reset') socket.resetAndDestroy()
    else socket.write(STRAY)
    return undefined
  }
}

/** A length, and the number of a request. */
const STRAY = Buffer.from([0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff])
