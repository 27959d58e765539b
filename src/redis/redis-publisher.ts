import type { Redis } from 'ioredis'
import { untilAborted } from '../basics/until-aborted.ts'
import { describe, errorText } from '../errors.ts'
import { type DestinationConnection, NO_CONFIRM, type OutgoingMessage, type Verdict } from '../relay/destination.ts'
import { unavailable } from '../relay/unavailable.ts'
import type { Entry, PublishScript } from './publish-script.ts'
import type { RedisPlan } from './redis-options.ts'
import { isDenied, verdictOf } from './redis-verdict.ts'
import { withRemedy } from './remedy.ts'

/** A connection to a server. */
export class RedisPublisher implements DestinationConnection {
  readonly #client: Redis
  readonly #script: PublishScript
  readonly #plan: RedisPlan
  readonly #mostBytes: number
  /** As they were checked. */
  readonly #entries = new WeakMap<OutgoingMessage, Entry>()

  constructor(client: Redis, script: PublishScript, plan: RedisPlan, mostBytes: number) {
    this.#client = client
    this.#script = script
    this.#plan = plan
    this.#mostBytes = mostBytes
  }

  check(outgoing: OutgoingMessage): string | undefined {
    const { stream, body, headers } = this.#entryOf(outgoing)
    if (typeof stream !== 'string' || stream === '')
      return `redis.stream: expected the key of a stream, received ${describe(stream)}`
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
      const { replicas } = this.#plan
      // Without a limit of time: the relay's own comes first, and ends the connection.
      // It may end early all the same: "CLIENT UNBLOCK" makes it answer how many have the messages by then.
      if (replicas > 0 && (await this.#client.wait(replicas, 0)) < replicas) throw new Error('too few replicas have it')
      return answers.map(verdictOf)
    } catch (error) {
      if (isDenied(error)) return this.#judge(entries)
      const verdict = unavailable(withRemedy(error))
      return messages.map(() => verdict)
    }
  }

  /** One of the streams is closed to this login, for which the server refuses the script as a whole. */
  async #judge(entries: readonly Entry[]): Promise<readonly Verdict[]> {
    const streams = [...new Set(entries.map(({ stream }) => stream))]
    const verdicts = new Map(
      await Promise.all(streams.map(async (stream) => [stream, await this.#ask(stream)] as const)),
    )
    return entries.map(({ stream }) => verdicts.get(stream) ?? NOT_SENT)
  }

  async #ask(stream: string): Promise<Verdict> {
    try {
      await this.#script.run([], [stream])
      return NOT_SENT
    } catch (error) {
      return isDenied(error) ? { kind: 'failed', error: errorText(error) } : unavailable(withRemedy(error))
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
    const { stream } = this.#plan
    const { id, body, headers, message } = outgoing
    return {
      stream: typeof stream === 'string' ? stream : stream(outgoing),
      key: message.orderingKey ?? undefined,
      id,
      body: Buffer.from(body.buffer, body.byteOffset, body.byteLength),
      headers: JSON.stringify(headers),
    }
  }
}

const NOT_SENT: Verdict = {
  kind: 'unavailable',
  error: 'not sent: another stream of the batch is closed to this login',
}
