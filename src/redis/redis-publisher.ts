import type { Redis } from 'ioredis'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { Target } from '../relay/target.ts'
import { unavailable } from '../relay/unavailable.ts'
import type { Entry, PublishScript } from './publish-script.ts'
import type { RedisPlan } from './redis-options.ts'
import { isDenied, verdictOf } from './redis-verdict.ts'
import { withRemedy } from './remedy.ts'

/** A connection to a server. */
export class RedisPublisher implements DestinationConnection {
  readonly #client: Redis
  readonly #script: PublishScript
  readonly #stream: Target
  readonly #replicas: number
  readonly #mostBytes: number
  /** As they were checked. */
  readonly #entries = new WeakMap<OutgoingMessage, Entry>()

  constructor(client: Redis, script: PublishScript, plan: RedisPlan, mostBytes: number) {
    this.#client = client
    this.#script = script
    this.#stream = new Target('redis.stream', plan.stream, wrongStream)
    this.#replicas = plan.replicas
    this.#mostBytes = mostBytes
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const wrong = this.#stream.refusalOf(outgoing)
    if (wrong !== undefined) return wrong
    const { body, headers } = this.#entryOf(outgoing)
    const size = Math.max(body.byteLength, Buffer.byteLength(headers))
    const most = this.#mostBytes
    return size > most ? `expected at most ${most} bytes, the server's proto-max-bulk-len, received ${size}` : undefined
  }

  async publish(messages: readonly OutgoingMessage[], signal: AbortSignal): Promise<readonly Verdict[]> {
    const verdicts = signal.aborted ? undefined : await untilAborted(this.#publish(messages), signal)
    return verdicts ?? messages.map(() => NO_CONFIRM)
  }

  async close(): Promise<void> {
    this.#client.disconnect()
  }

  async #publish(messages: readonly OutgoingMessage[]): Promise<readonly Verdict[]> {
    const entries = messages.map((outgoing) => this.#entryOf(outgoing))
    try {
      const answers = await this.#script.run(entries, [])
      // Without a limit of time: the relay's own comes first, and ends the connection.
      // It may end early all the same: "CLIENT UNBLOCK" makes it answer how many have the messages by then.
      if (this.#replicas > 0 && (await this.#client.wait(this.#replicas, 0)) < this.#replicas)
        throw new Error('too few replicas have it')
      return messages.map((outgoing, at) => verdictOf(answers[at] ?? '', outgoing, this.#stream))
    } catch (error) {
      if (isDenied(error)) return this.#judge(messages)
      const verdict = unavailable(withRemedy(error))
      return messages.map(() => verdict)
    }
  }

  /** One of the streams is closed to this login, for which the server refuses the script as a whole. */
  async #judge(messages: readonly OutgoingMessage[]): Promise<readonly Verdict[]> {
    const streams = [...new Set(messages.map((outgoing) => this.#stream.of(outgoing)))]
    const errors = new Map(
      await Promise.all(streams.map(async (stream) => [stream, await this.#errorOf(stream)] as const)),
    )
    return messages.map((outgoing) => {
      const error = errors.get(this.#stream.of(outgoing))
      if (error === undefined) return NOT_SENT
      return isDenied(error) ? this.#stream.closed(outgoing, withRemedy(error)) : unavailable(withRemedy(error))
    })
  }

  async #errorOf(stream: string): Promise<unknown> {
    try {
      await this.#script.run([], [stream])
      return undefined
    } catch (error) {
      return error
    }
  }

  #entryOf(outgoing: OutgoingMessage): Entry {
    const known = this.#entries.get(outgoing)
    if (known !== undefined) return known
    const made = this.#toEntry(outgoing)
    this.#entries.set(outgoing, made)
    return made
  }

  #toEntry(outgoing: OutgoingMessage): Entry {
    const { id, body, headers, message } = outgoing
    return {
      stream: this.#stream.of(outgoing),
      key: message.orderingKey ?? undefined,
      id,
      body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      headers: JSON.stringify(headers),
    }
  }
}

function wrongStream(stream: unknown): string | undefined {
  return typeof stream === 'string' && stream !== '' ? undefined : 'the key of a stream'
}

const NOT_SENT: Verdict = {
  kind: 'unavailable',
  error: 'not sent: another stream of the batch is closed to this login',
}
