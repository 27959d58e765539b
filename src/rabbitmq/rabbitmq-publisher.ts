import { type ConfirmChannel, IllegalOperationError } from 'amqplib'
import { describe, errorText } from '../errors.ts'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { PublishCall } from '../relay/publish-call.ts'
import { Target } from '../relay/target.ts'
import { unavailable } from '../relay/unavailable.ts'
import { propertiesOf, wrongHeaders } from './properties.ts'
import type { RabbitmqOptions } from './rabbitmq-options.ts'
import { withRemedy } from './remedy.ts'
import { wrongRoutingKey } from './routing-key.ts'
import { closeSession, type Session } from './session.ts'
import type { SizeLimit } from './size-limit.ts'

/** A connection to RabbitMQ, with a channel that confirms. */
export class RabbitmqPublisher implements DestinationConnection {
  readonly #session: Session
  readonly #channel: ConfirmChannel
  readonly #exchange: string
  readonly #routingKey: Target
  readonly #limit: SizeLimit
  /** The latest publication of each id, until it has an answer. */
  readonly #underway = new Map<unknown, Publication>()
  readonly #calls = new Set<PublishCall>()
  #closed: Verdict | undefined
  #blocked: Verdict | undefined

  constructor(session: Session, channel: ConfirmChannel, options: RabbitmqOptions, limit: SizeLimit) {
    this.#session = session
    this.#channel = channel
    this.#exchange = options.exchange
    this.#routingKey = new Target('rabbitmq.routingKey', options.routingKey, wrongRoutingKey)
    this.#limit = limit
    this.#listen()
  }

  check(outgoing: OutgoingMessage): string | undefined {
    return (
      this.#routingKey.refusalOf(outgoing) ?? wrongHeaders(outgoing.headers) ?? this.#limit.refusalOf(outgoing.body)
    )
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    if (signal.aborted) return messages.map(() => NO_CONFIRM)
    const obstacle = this.#closed ?? this.#blocked
    if (obstacle !== undefined) return messages.map(() => obstacle)
    const call = new PublishCall(messages, (outgoing, answered) => this.#publish(outgoing, answered))
    this.#calls.add(call)
    try {
      return await call.until(signal, NO_CONFIRM)
    } finally {
      this.#calls.delete(call)
    }
  }

  close(): Promise<void> {
    this.#end(new Error('connection closed'))
    return closeSession(this.#session)
  }

  #publish(outgoing: OutgoingMessage, answered: (verdict: Verdict) => void): void {
    const publication: Publication = { isReturned: false }
    this.#underway.set(outgoing.id, publication)
    const end = (verdict: Verdict) => {
      if (this.#underway.get(outgoing.id) === publication) this.#underway.delete(outgoing.id)
      answered(verdict)
    }
    try {
      this.#send(outgoing, (failure) => {
        // Later, because the client calls this before it tells why the channel is closed.
        if (failure !== null) queueMicrotask(() => end(this.#closed ?? NACKED))
        else end(publication.isReturned ? this.#unroutable(outgoing) : CONFIRMED)
      })
    } catch (error) {
      if (error instanceof IllegalOperationError) end(this.#closed ?? unavailable(error))
      // The client cannot encode it.
      else end({ kind: 'refused', error: errorText(error) })
    }
  }

  /**
   * Gives null when the server has confirmed the message, and an error when it has not and will not. A full buffer holds nothing
   * up: the relay bounds what is under way, and after a broken connection there is no event that says there is room.
   */
  #send(outgoing: OutgoingMessage, answered: (failure: unknown) => void): void {
    const { buffer, byteOffset, byteLength } = outgoing.body
    const body = Buffer.from(buffer, byteOffset, byteLength)
    this.#channel.publish(this.#exchange, this.#routingKey.of(outgoing), body, propertiesOf(outgoing), answered)
  }

  #listen(): void {
    const { connection } = this.#session
    this.#channel.on('return', ({ properties }) => this.#return(properties.messageId))
    this.#channel.on('error', (error) => this.#end(error))
    connection.on('error', (error) => this.#end(error))
    connection.on('close', (error) => this.#end(error ?? new Error('connection closed')))
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
    const key = describe(this.#routingKey.of(outgoing))
    if (this.#exchange === '')
      return this.#routingKey.closed(outgoing, `no queue ${key}. Declare it, or correct routingKey`)
    // By the headers of another message its exchange may find a queue, although the key is the same.
    return {
      kind: 'failed',
      error: `no queue is bound to exchange ${describe(this.#exchange)} for routing key ${key}. Bind one, or correct routingKey`,
    }
  }

  /** No message that is under way gets an answer any more: the client ends each with an error. */
  #end(error: Error): void {
    this.#closed ??= unavailable(withRemedy(error))
    this.#limit.learnFrom(error.message)
  }

  /** The server is short of memory or disk, and reads nothing of this connection until that is over. */
  #block(reason: string): void {
    const blocked: Verdict = { kind: 'unavailable', error: `connection blocked by the server: ${reason}` }
    this.#blocked = blocked
    for (const call of this.#calls) call.end(blocked)
  }

  #unblock(): void {
    this.#blocked = undefined
  }
}

interface Publication {
  isReturned: boolean
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const NACKED: Verdict = { kind: 'unavailable', error: 'nacked by the server: a queue is full, or has no leader' }
