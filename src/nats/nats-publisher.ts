import { type JetStreamClient, jetstream } from '@nats-io/jetstream'
import { type MsgHdrs, MsgHdrsImpl, type NatsConnection } from '@nats-io/transport-node'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { PublishCall } from '../relay/publish-call.ts'
import { Target } from '../relay/target.ts'
import { Confirms } from './confirms.ts'
import type { NatsOptions } from './nats-options.ts'
import { isNoResponse, type Publication, verdictOf, verdictOfAnswer } from './nats-verdict.ts'
import { wrongSubject } from './subject.ts'
import { Unanswered } from './unanswered.ts'

/** A connection to JetStream. */
export class NatsPublisher implements DestinationConnection {
  readonly #connection: NatsConnection
  readonly #jetstream: JetStreamClient
  readonly #subject: Target
  readonly #stream: string | undefined
  readonly #confirms: Confirms

  constructor(connection: NatsConnection, options: NatsOptions) {
    this.#connection = connection
    this.#jetstream = jetstream(connection)
    this.#subject = new Target('nats.subject', options.subject, wrongSubject)
    this.#stream = options.stream
    this.#confirms = new Confirms(connection, options.connection?.inboxPrefix)
  }

  /** @throws if the login may not receive confirms */
  ready(): Promise<void> {
    return this.#confirms.ready()
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const wrong = this.#subject.refusalOf(outgoing)
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
    const unanswered = new Unanswered(this.#jetstream)
    const numbers: string[] = []
    const call = new PublishCall(messages, (outgoing, answered) => {
      try {
        numbers.push(this.#publish(outgoing, unanswered, answered))
      } catch (error) {
        answered(verdictOf(error, this.#publicationOf(outgoing)))
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
    const subject = this.#subject.of(outgoing)
    const sent = { subject, body: outgoing.body, headers: this.#headersOf(outgoing) }
    return this.#confirms.publish(sent, (answer) => {
      const publication = this.#publicationOf(outgoing)
      if (answer instanceof Error) answered(verdictOf(answer, publication))
      else if (isNoResponse(answer)) void unanswered.verdictOf(publication).then(answered)
      else answered(verdictOfAnswer(answer, publication))
    })
  }

  #publicationOf(outgoing: OutgoingMessage): Publication {
    return { outgoing, subject: this.#subject, stream: this.#stream }
  }

  /** As they are: the client's own check of each takes as long as the rest of the publication, and the relay has made it. */
  #headersOf({ id, headers }: OutgoingMessage): MsgHdrs {
    const made = new MsgHdrsImpl()
    made.headers.set('Nats-Msg-Id', [id])
    if (this.#stream !== undefined) made.headers.set('Nats-Expected-Stream', [this.#stream])
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
