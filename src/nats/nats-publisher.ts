import { type JetStreamClient, jetstream } from '@nats-io/jetstream'
import { headers, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { describe, errorText } from '../errors.ts'
import type { DestinationConnection, OutgoingMessage, Verdict } from '../relay/destination.ts'
import { PublishCall } from '../relay/publish-call.ts'
import { Target } from '../relay/target.ts'
import type { NatsOptions } from './nats-options.ts'
import { isNoResponse, verdictOf, verdictOfAnswer } from './nats-verdict.ts'
import { wrongSubject } from './subject.ts'

/** A connection to JetStream. */
export class NatsPublisher implements DestinationConnection {
  readonly #connection: NatsConnection
  readonly #jetstream: JetStreamClient
  readonly #subject: Target
  readonly #stream: string | undefined

  constructor(connection: NatsConnection, options: NatsOptions) {
    this.#connection = connection
    this.#jetstream = jetstream(connection)
    this.#subject = new Target(options.subject)
    this.#stream = options.stream
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const wrong = this.#wrongSubject(outgoing)
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
    const asked = new Map<string, Promise<Verdict>>()
    const call = new PublishCall(messages, (outgoing, answered) => {
      this.#publish(outgoing, asked).then(answered, (error) =>
        answered({ kind: 'unavailable', error: errorText(error) }),
      )
    })
    return call.until(signal, NO_CONFIRM)
  }

  close(): Promise<void> {
    return this.#connection.close()
  }

  /** @param asked by subject, what is known of those that nobody has answered for */
  async #publish(outgoing: OutgoingMessage, asked: Map<string, Promise<Verdict>>): Promise<Verdict> {
    const subject = this.#subject.of(outgoing)
    const stream = this.#stream
    try {
      const answer = await this.#jetstream.publish(subject, outgoing.body, {
        msgID: outgoing.id,
        headers: headersOf(outgoing),
        timeout: LONGEST_MS,
        ...(stream === undefined ? {} : { expect: { streamName: stream } }),
      })
      return verdictOfAnswer(answer, stream)
    } catch (error) {
      if (!isNoResponse(error)) return verdictOf(error)
      const known = asked.get(subject) ?? this.#ask(subject)
      asked.set(subject, known)
      return known
    }
  }

  /** Nobody has answered: the stream is missing or has no leader now, or none has the subject, which is the message's fault. */
  async #ask(subject: string): Promise<Verdict> {
    const stream = this.#stream
    const { streams } = await this.#jetstream.jetstreamManager(false)
    try {
      if (stream !== undefined) await streams.info(stream)
    } catch (error) {
      // As before the first message: the relay waits for a stream that it names.
      return { kind: 'unavailable', error: errorText(error) }
    }
    try {
      return { kind: 'unavailable', error: `stream ${await streams.find(subject)} has no leader` }
    } catch (error) {
      return verdictOf(error)
    }
  }

  #wrongSubject(outgoing: OutgoingMessage): string | undefined {
    if (this.#subject.isFixed) return undefined
    const subject: unknown = this.#subject.of(outgoing)
    const wrong = wrongSubject(subject)
    return wrong === undefined ? undefined : `nats.subject: expected ${wrong}, received ${describe(subject)}`
  }
}

function headersOf(outgoing: OutgoingMessage): MsgHdrs {
  const made = headers()
  // Not by `set`, which looks for the name among those that are there, although it is new.
  for (const [name, value] of Object.entries(outgoing.headers)) made.append(name, value)
  return made
}

/** The headers by which the server is told what to do. */
const OWN = /^nats-/i
/** A colon, a space and the end of the line. */
const LINE_BYTES = 4
/** What a cluster stores: a single server would take more. */
const MOST_HEADER_BYTES = 65_535
/** For the id and the name of the stream, which are headers too. */
const OTHER_BYTES = 400
const NO_CONFIRM: Verdict = { kind: 'unavailable', error: 'no confirm in time' }
/** The relay's own limit comes first. */
const LONGEST_MS = 120_000
