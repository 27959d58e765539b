import { type JetStreamClient, jetstream } from '@nats-io/jetstream'
import { type MsgHdrs, MsgHdrsImpl, type NatsConnection } from '@nats-io/transport-node'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { PublishCall } from '../relay/publish-call.ts'
import { Target } from '../relay/target.ts'
import { Confirms } from './confirms.ts'
import type { NatsOptions } from './nats-options.ts'
import { isNoResponse, type Place, verdictOf, verdictOfAnswer } from './nats-verdict.ts'
import { wrongSubject } from './subject.ts'
import { Unanswered } from './unanswered.ts'

/** A connection to JetStream. */
export class NatsPublisher implements DestinationConnection {
  readonly #connection: NatsConnection
  readonly #jetstream: JetStreamClient
  readonly #place: Place
  readonly #confirms: Confirms

  constructor(connection: NatsConnection, options: NatsOptions) {
    this.#connection = connection
    this.#jetstream = jetstream(connection)
    this.#place = { subject: new Target('nats.subject', options.subject, wrongSubject), stream: options.stream }
    this.#confirms = new Confirms(connection, options.connection?.inboxPrefix)
  }

  /** @throws if the login may not receive confirms */
  ready(): Promise<void> {
    return this.#confirms.ready()
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const wrong = this.#place.subject.refusalOf(outgoing)
    if (wrong !== undefined) return wrong
    let size = OTHER_BYTES
    for (const [name, value] of Object.entries(outgoing.headers)) {
      if (OWN.test(name)) return `header ${JSON.stringify(name)}: expected a name that does not begin with Nats-`
      size += name.length + Buffer.byteLength(value) + LINE_BYTES
    }
    if (size > MOST_HEADER_BYTES) return `headers: expected at most ${MOST_HEADER_BYTES} bytes, received ${size}`
    size += outgoing.body.byteLength
    const most = this.#connection.info?.max_payload ?? Number.POSITIVE_INFINITY
    return size > most ? `expected at most ${most} bytes, the server's max_payload, received ${size}` : undefined
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    if (signal.aborted) return messages.map(() => NO_CONFIRM)
    const unanswered = new Unanswered(this.#jetstream, this.#place)
    const numbers: string[] = []
    const call = new PublishCall(messages, (outgoing, answered) => {
      try {
        numbers.push(this.#publish(outgoing, unanswered, answered))
      } catch (error) {
        answered(verdictOf(error, outgoing, this.#place))
      }
    })
    const verdicts = await call.until(signal, NO_CONFIRM)
    if (signal.aborted) for (const number of numbers) this.#confirms.forget(number)
    return verdicts
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  #publish(outgoing: OutgoingMessage, unanswered: Unanswered, answered: (verdict: Verdict) => void): string {
    const subject = this.#place.subject.of(outgoing)
    const sent = { subject, body: outgoing.body, headers: this.#headersOf(outgoing) }
    return this.#confirms.publish(sent, (answer) => {
      if (answer instanceof Error) answered(verdictOf(answer, outgoing, this.#place))
      else if (isNoResponse(answer)) void unanswered.verdictOf(outgoing).then(answered)
      else answered(verdictOfAnswer(answer, outgoing, this.#place))
    })
  }

  /** As they are: the client's own check of each takes as long as the rest of the publication, and the relay has made it. */
  #headersOf({ id, headers }: OutgoingMessage): MsgHdrs {
    const { stream } = this.#place
    const made = new MsgHdrsImpl()
    made.headers.set('Nats-Msg-Id', [id])
    if (stream !== undefined) made.headers.set('Nats-Expected-Stream', [stream])
    for (const [name, value] of Object.entries(headers)) made.headers.set(name, [value])
    return made
  }
}

/** The headers by which the server is told what to do. */
const OWN = /^nats-/i
/** A colon, a space and the end of the line. */
const LINE_BYTES = 4
/** What a cluster stores: a single server would take more. */
const MOST_HEADER_BYTES = 65_535
/** For the id and the name of the stream, which are headers too. */
const OTHER_BYTES = 400
