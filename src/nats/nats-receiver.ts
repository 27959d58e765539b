import type { Consumer, JsMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { ReceivedMessage, ReceiverConnection } from '../inbox/receiver.ts'
import { Unacked } from '../inbox/unacked.ts'
import { type Handover, REQUEST_MS } from './handover.ts'
import { watchPermissions, withRemedy } from './remedy.ts'

/** A connection to a consumer of JetStream. */
export class NatsReceiver implements ReceiverConnection {
  readonly #connection: NatsConnection
  readonly #consumer: Consumer
  /** From the connection before this one. */
  readonly #handover: Handover
  /** What has been received and not acked. */
  readonly #out = new Unacked<JsMsg>()
  /** How many messages the consumer delivers before it waits for acks. */
  readonly #most: number
  #onLost: (error: unknown) => void = () => undefined
  /** Why it is of no use any more. */
  #lost: { readonly error: unknown } | undefined
  /** How many more messages there were, as the last one said. */
  #more = 0

  constructor(connection: NatsConnection, consumer: Consumer, handover: Handover, most: number) {
    this.#connection = connection
    this.#consumer = consumer
    this.#handover = handover
    this.#most = most
    void connection.closed().then((error) => this.#lose(error ?? new Error('the connection is closed')))
    void watchPermissions(connection, (violation) => this.#lose(violation))
  }

  get waitMs(): number {
    return this.#handover.waitMs
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    await this.#handover.over(signal)
    while (!signal.aborted) {
      const room = Math.min(most, this.#most)
      const messages = this.#more > 0 ? await this.#fetch(Math.min(room, this.#more)) : await this.#wait(room, signal)
      this.#more = moreBehind(messages.at(-1))
      if (messages.length > 0) return messages.map((message) => this.#given(message))
    }
    return []
  }

  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    const delivered = this.#out.of(messages)
    this.#out.forget(messages)
    const last = delivered.pop()
    for (const one of delivered) one.ack()
    // JetStream answers to the last one when it has those before it.
    if (last !== undefined) await this.#unlessLost(() => last.ackAck({ timeout: ACK_MS }))
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  #lose(error: Error): void {
    this.#lost ??= { error: withRemedy(error) }
    this.#onLost(this.#lost.error)
  }

  /** What the client is asked for. It may forget that, or wait in vain, when the connection is of no use any more. */
  async #unlessLost<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#lost !== undefined) throw this.#lost.error
    const answered = Promise.withResolvers<T>()
    this.#onLost = answered.reject
    ask().then(answered.resolve, (error: unknown) => answered.reject(withRemedy(error)))
    return answered.promise
  }

  /** Waits for one message, and takes those that are there with it. */
  async #wait(most: number, signal: AbortSignal): Promise<readonly JsMsg[]> {
    const next = this.#unlessLost(() => this.#consumer.next({ expires: REQUEST_MS }))
    const first = await untilAborted(next, signal)
    // None came in time.
    if (first === undefined || first === null) return []
    const more = Math.min(most - 1, moreBehind(first))
    return more > 0 ? [first, ...(await this.#fetch(more))] : [first]
  }

  /** So many messages that are there; fewer, after a second, if another process has taken some. */
  #fetch(count: number): Promise<readonly JsMsg[]> {
    return this.#unlessLost(async () => {
      const messages: JsMsg[] = []
      for await (const message of await this.#consumer.fetch({ max_messages: count, expires: LEAST_MS }))
        messages.push(message)
      return messages
    })
  }

  #given(message: JsMsg): ReceivedMessage {
    const headers: Record<string, string> = {}
    for (const [name, [value = '']] of message.headers ?? []) if (!ORDERS.test(name)) headers[name] = value
    const id = message.headers?.get('Nats-Msg-Id') || undefined
    const given = { id, body: message.data, headers }
    this.#out.set(given, message)
    return given
  }
}

/** How many messages the server has behind this one. It does not count those that it delivers again. */
function moreBehind(message: JsMsg | undefined): number {
  if (message === undefined) return 0
  return message.redelivered ? MANY : message.info.pending
}

const ORDERS = /^nats-/i
const MANY = 1_000
/** The client asks for no less. */
const LEAST_MS = 1_000
/** Less than the inbox waits, so that its error names the reason. */
const ACK_MS = 5_000
