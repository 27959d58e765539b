import { type ConfirmChannel, IllegalOperationError } from 'amqplib'
import { describe, errorText } from '../errors.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from '../relay/destination.ts'
import { propertiesOf, wrongHeaders } from './properties.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'
import { routingKeyOf, wrongRoutingKey } from './routing-key.ts'
import { closeSession, type Session } from './session.ts'
import type { SizeLimit } from './size-limit.ts'

/** A connection to RabbitMQ, with a channel that confirms. */
export class RabbitmqPublisher implements DestinationConnection {
  readonly #session: Session
  readonly #channel: ConfirmChannel
  readonly #options: RabbitmqOptions
  readonly #limit: SizeLimit
  /** The latest publication of each id, until it has an answer. */
  readonly #underway = new Map<unknown, Publication>()
  /** Gives the calls of `publish` that wait a verdict for all messages without an answer. */
  readonly #waiting = new Set<(verdict: Verdict) => void>()
  #closed: string | undefined
  #blocked: string | undefined

  constructor(session: Session, channel: ConfirmChannel, options: RabbitmqOptions, limit: SizeLimit) {
    this.#session = session
    this.#channel = channel
    this.#options = options
    this.#limit = limit
    this.#listen()
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const key: unknown = routingKeyOf(outgoing, this.#options)
    const wrong = wrongRoutingKey(key)
    if (wrong !== undefined) return `rabbitmq.routingKey: expected ${wrong}, received ${describe(key)}`
    return wrongHeaders(outgoing.headers) ?? this.#limit.refusalOf(outgoing.body)
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    if (signal.aborted) return messages.map(() => NO_CONFIRM)
    const obstacle = this.#closed ?? this.#blocked
    if (obstacle !== undefined) return messages.map(() => unavailable(obstacle))
    const interrupted = Promise.withResolvers<Verdict>()
    const abort = () => interrupted.resolve(NO_CONFIRM)
    signal.addEventListener('abort', abort)
    this.#waiting.add(interrupted.resolve)
    try {
      return await Promise.all(messages.map((one) => Promise.race([this.#publish(one), interrupted.promise])))
    } finally {
      this.#waiting.delete(interrupted.resolve)
      signal.removeEventListener('abort', abort)
    }
  }

  close(): Promise<void> {
    this.#end('connection closed')
    return closeSession(this.#session)
  }

  async #publish(outgoing: OutgoingMessage): Promise<Verdict> {
    const publication: Publication = { isReturned: false }
    this.#underway.set(outgoing.id, publication)
    try {
      const failure = await this.#send(outgoing)
      if (failure !== null) return unavailable(this.#closed ?? NACKED)
      return publication.isReturned ? this.#unroutable(outgoing) : CONFIRMED
    } catch (error) {
      if (error instanceof IllegalOperationError) return unavailable(this.#closed ?? errorText(error))
      // The client cannot encode it.
      return { kind: 'refused', error: errorText(error) }
    } finally {
      if (this.#underway.get(outgoing.id) === publication) this.#underway.delete(outgoing.id)
    }
  }

  /**
   * Gives null when the server has confirmed the message, and an error when it has not and will not. A full buffer holds nothing
   * up: the relay bounds what is under way, and after a broken connection there is no event that says there is room.
   */
  #send(outgoing: OutgoingMessage): Promise<unknown> {
    const { buffer, byteOffset, byteLength } = outgoing.body
    const body = Buffer.from(buffer, byteOffset, byteLength)
    const key = routingKeyOf(outgoing, this.#options)
    return new Promise((resolve) => {
      this.#channel.publish(this.#options.exchange, key, body, propertiesOf(outgoing), resolve)
    })
  }

  #listen(): void {
    const { connection } = this.#session
    this.#channel.on('return', ({ properties }) => this.#return(properties.messageId))
    this.#channel.on('error', ({ message }) => this.#end(message))
    connection.on('error', ({ message }) => this.#end(message))
    connection.on('close', (error) => this.#end(error?.message ?? 'connection closed'))
    connection.on('blocked', (reason) => this.#block(reason))
    connection.on('unblocked', () => this.#unblock())
  }

  /**
   * No queue gets the message; the server confirms it nevertheless, after this. If its first publication had no answer in time
   * and this is about that one, the second counts as returned too: at worst it is published once more.
   */
  #return(id: unknown): void {
    const publication = this.#underway.get(id)
    if (publication !== undefined) publication.isReturned = true
  }

  #unroutable(outgoing: OutgoingMessage): Verdict {
    const key = describe(routingKeyOf(outgoing, this.#options))
    const { exchange } = this.#options
    const bound = `no queue is bound to exchange ${describe(exchange)} for routing key ${key}`
    return { kind: 'failed', error: exchange === '' ? `no queue ${key}` : bound }
  }

  /** No message that is under way gets an answer any more: the client ends each with an error. */
  #end(reason: string): void {
    this.#closed ??= reason
    this.#limit.learnFrom(reason)
  }

  /** The server is short of memory or disk, and reads nothing of this connection until that is over. */
  #block(reason: string): void {
    this.#blocked = `connection blocked by the server: ${reason}`
    for (const interrupt of this.#waiting) interrupt(unavailable(this.#blocked))
  }

  #unblock(): void {
    this.#blocked = undefined
  }
}

interface Publication {
  isReturned: boolean
}

function unavailable(error: string): Verdict {
  return { kind: 'unavailable', error }
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const NO_CONFIRM = unavailable('no confirm in time')
const NACKED = 'nacked by the server: a queue is full, or has no leader'
