import type { JetStreamClient } from '@nats-io/jetstream'
import type { OutgoingMessage, Verdict } from '../relay/destination.ts'
import { unavailable } from '../relay/unavailable.ts'
import { checkStream } from './check-stream.ts'
import { type Place, verdictOf } from './nats-verdict.ts'
import { withRemedy } from './remedy.ts'

/** Finds out why nobody has answered to the messages of a call: once for each subject. */
export class Unanswered {
  readonly #jetstream: JetStreamClient
  readonly #place: Place
  readonly #known = new Map<string, Promise<Verdict>>()

  constructor(jetstream: JetStreamClient, place: Place) {
    this.#jetstream = jetstream
    this.#place = place
  }

  verdictOf(outgoing: OutgoingMessage): Promise<Verdict> {
    const subject = this.#place.subject.of(outgoing)
    const known = this.#known.get(subject) ?? this.#ask(subject, outgoing)
    this.#known.set(subject, known)
    return known
  }

  /** The stream is missing or has no leader now, or none has the subject, which is the message's fault. */
  async #ask(subject: string, outgoing: OutgoingMessage): Promise<Verdict> {
    const missing = await this.#missing()
    if (missing !== undefined) return missing
    try {
      const { streams } = await this.#jetstream.jetstreamManager(false)
      return { kind: 'unavailable', error: `stream ${await streams.find(subject)} has no leader` }
    } catch (error) {
      return verdictOf(error, outgoing, this.#place)
    }
  }

  /** As before the first message: the relay waits for a stream that it names. */
  async #missing(): Promise<Verdict | undefined> {
    const { stream } = this.#place
    if (stream === undefined) return undefined
    try {
      await checkStream(this.#jetstream, stream)
      return undefined
    } catch (error) {
      return unavailable(withRemedy(error))
    }
  }
}
