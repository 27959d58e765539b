import type { Channel, ConsumeMessage } from 'amqplib'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { ReceivedMessage, ReceiverConnection } from '../inbox/receiver.ts'
import { Unacked } from '../inbox/unacked.ts'
import { receivedOf } from './received.ts'
import { withRemedy } from './remedy.ts'
import { closeSession, type Session } from './session.ts'

/** A connection to RabbitMQ, with a consumer of a queue. */
export class RabbitmqReceiver implements ReceiverConnection {
  readonly #session: Session
  readonly #channel: Channel
  readonly #queue: string
  /** What the server has sent, and `receive` has not returned yet. */
  readonly #arrived: ConsumeMessage[] = []
  /** What `receive` has returned and is not acked, in its order. */
  readonly #out = new Unacked<ConsumeMessage>()
  #consuming: Promise<void> | undefined
  #changed = Promise.withResolvers<void>()
  /** Why it is of no use any more. */
  #ended: { readonly reason: unknown } | undefined

  constructor(session: Session, channel: Channel, queue: string) {
    this.#session = session
    this.#channel = channel
    this.#queue = queue
    channel.on('error', (error) => this.#end(error))
    session.connection.on('error', (error) => this.#end(error))
    session.connection.on('close', (error) => this.#end(error ?? new Error('connection closed')))
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    this.#consuming ??= this.#consume(most)
    await untilAborted(this.#consuming, signal)
    while (this.#arrived.length === 0 && this.#ended === undefined && !signal.aborted)
      await untilAborted(this.#changed.promise, signal)
    const mayBeMore = this.#arrived.length > 0 && this.#arrived.length < most
    if (mayBeMore && !signal.aborted) await untilAborted(this.#roundTrip(), signal)
    if (this.#ended !== undefined) throw this.#ended.reason
    return this.#arrived.splice(0, most).map((message) => this.#given(message))
  }

  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    if (this.#ended !== undefined) throw this.#ended.reason
    const [oldest] = this.#out.keys()
    const delivered = this.#out.of(messages)
    const last = delivered.at(-1)
    // One ack stands for all up to its message.
    if (last !== undefined && oldest === messages[0]) this.#channel.ack(last, true)
    else for (const one of delivered) this.#channel.ack(one)
    this.#out.forget(messages)
    await this.#roundTrip()
  }

  /** The server puts back what has not been acked, each message where it was. */
  close(): Promise<void> {
    this.#end(new Error('connection closed'))
    return closeSession(this.#session)
  }

  /** The server sends as many messages as one batch takes, and more when these have been acked. */
  async #consume(most: number): Promise<void> {
    try {
      await this.#channel.prefetch(most)
      await this.#channel.consume(this.#queue, (message) => this.#arrive(message))
    } catch (error) {
      throw withRemedy(error)
    }
  }

  #arrive(message: ConsumeMessage | null): void {
    if (message === null) {
      this.#end(new Error(`queue '${this.#queue}': the server has cancelled its consumer`))
      return
    }
    this.#arrived.push(message)
    this.#tell()
  }

  /**
   * When the server answers it has all acks, which have no answers of their own, and has sent the messages that it had for this
   * consumer. The command itself changes nothing: it concerns consumers that begin later.
   */
  async #roundTrip(): Promise<void> {
    try {
      await this.#channel.prefetch(1)
    } catch (error) {
      throw this.#ended === undefined ? error : this.#ended.reason
    }
  }

  #given(message: ConsumeMessage): ReceivedMessage {
    const given = receivedOf(message)
    this.#out.set(given, message)
    return given
  }

  #end(error: Error): void {
    this.#ended ??= { reason: withRemedy(error) }
    this.#tell()
  }

  #tell(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}
