import type { JetStreamClient } from '@nats-io/jetstream'
import type { Verdict } from '../relay/destination.ts'
import { unavailable } from '../relay/unavailable.ts'
import { checkStream } from './check-stream.ts'
import { type Publication, verdictOf } from './nats-verdict.ts'
import { withRemedy } from './remedy.ts'

/** Finds out why nobody has answered to the messages of a call: once for each subject. */
export class Unanswered {
  readonly #jetstream: JetStreamClient
  readonly #known = new Map<string, Promise<Verdict>>()

  constructor(jetstream: JetStreamClient) {
    this.#jetstream = jetstream
  }

  verdictOf(publication: Publication): Promise<Verdict> {
    const subject = publication.subject.of(publication.outgoing)
    const known = this.#known.get(subject) ?? this.#ask(subject, publication)
    this.#known.set(subject, known)
    return known
  }

  /** The stream is missing or has no leader now, or none has the subject, which is the message's fault. */
  async #ask(subject: string, publication: Publication): Promise<Verdict> {
    const missing = await this.#missing(publication)
    if (missing !== undefined) return missing
    try {
      const { streams } = await this.#jetstream.jetstreamManager(false)
      return { kind: 'unavailable', error: `stream ${await streams.find(subject)} has no leader` }
    } catch (error) {
      return verdictOf(error, publication)
    }
  }

  /** As before the first message: the relay waits for a stream that it names. */
  async #missing({ stream }: Publication): Promise<Verdict | undefined> {
    if (stream === undefined) return undefined
    try {
      await checkStream(this.#jetstream, stream)
      return undefined
    } catch (error) {
      return unavailable(withRemedy(error))
    }
  }
}
