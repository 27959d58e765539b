import { createInbox, type Msg, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { notConnected } from '../relay/any-server.ts'
import { subjectOf, watchPermissions } from './remedy.ts'

/** A message to publish. */
interface Publication {
  readonly subject: string
  readonly body: Uint8Array
  readonly headers: MsgHdrs
}

/** Gets the first answer to a publication, or why there is none. */
type Answered = (answer: Msg | Error) => void

interface Waiting {
  readonly subject: string
  readonly answered: Answered
}

/**
 * Publications that wait for the answer of a stream, all of them on one subscription. The client's own requests take a timer and
 * several promises for each message.
 */
export class Confirms {
  readonly #connection: NatsConnection
  /** Each answer comes under this name and a number. */
  readonly #inbox: string
  readonly #waiting = new Map<string, Waiting>()
  #count = 0
  /** The login may not receive answers. */
  #deaf: Error | undefined

  /** @param prefix of the names under which answers come. Undefined: the client's */
  constructor(connection: NatsConnection, prefix: string | undefined) {
    this.#connection = connection
    this.#inbox = `${createInbox(prefix)}.`
    connection.subscribe(`${this.#inbox}*`, { callback: (error, message) => this.#hear(error, message) })
    void connection.closed().then((error) => this.#fail(error ?? new Error('connection closed')))
    // The server does not say which message it has refused, but under which subject the login may not publish.
    void watchPermissions(connection, (violation) => {
      if (violation.operation === 'publish') this.#fail(violation, subjectOf(violation))
    })
  }

  /**
   * Publishes a message.
   *
   * @returns what to {@link forget} if there is no answer
   * @throws what the client throws, or that no answer can come: it is not sent
   */
  publish({ subject, body, headers }: Publication, answered: Answered): string {
    if (this.#deaf !== undefined) throw this.#deaf
    this.#count += 1
    const number = String(this.#count)
    this.#connection.publish(subject, body, { headers, reply: this.#inbox + number })
    this.#waiting.set(number, { subject, answered })
    return number
  }

  /** Resolves when answers can come. @throws that they cannot */
  async ready(): Promise<void> {
    const ended = this.#connection.closed().then((error) => {
      const reason = error ?? new Error('connection closed')
      throw notConnected(new Map([[this.#connection.getServer(), reason]]))
    })
    // What waits for an answer hears nothing of the end. The server says whether it takes the subscription before it answers.
    await Promise.race([this.#connection.flush(), ended])
    if (this.#deaf !== undefined) throw this.#deaf
  }

  /** Nothing waits for the answer any more. */
  forget(number: string): void {
    this.#waiting.delete(number)
  }

  #hear(error: Error | null, message: Msg): void {
    if (error === null) this.#answer(message.subject.slice(this.#inbox.length), message)
    else {
      this.#deaf = error
      this.#fail(error)
    }
  }

  #answer(number: string, answer: Msg | Error): void {
    const waiting = this.#waiting.get(number)
    if (waiting === undefined) return
    this.#waiting.delete(number)
    waiting.answered(answer)
  }

  /** @param subject only those that were published under it */
  #fail(error: Error, subject?: string): void {
    for (const [number, waiting] of [...this.#waiting])
      if (subject === undefined || subject === waiting.subject) this.#answer(number, error)
  }
}
