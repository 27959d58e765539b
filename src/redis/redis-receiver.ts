import type { Redis } from 'ioredis'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { ReceivedMessage, ReceiverConnection } from '../inbox/receiver.ts'
import { Unacked } from '../inbox/unacked.ts'
import { entriesIn, listOf, receivedOf, type StreamEntry } from './entry.ts'
import { withRemedy } from './remedy.ts'

/** A consumer of a stream. */
export interface StreamConsumer {
  readonly stream: string
  readonly group: string
  readonly consumer: string
}

/** How long the server keeps a command that waits for an entry. */
export const BLOCK_MS = 5_000

/** A connection to Redis for one consumer: what waits for entries holds up all other commands. */
export class RedisReceiver implements ReceiverConnection {
  readonly #client: Redis
  readonly #place: StreamConsumer
  /** What the server has delivered, and `receive` has not returned yet. */
  readonly #ready: StreamEntry[] = []
  /** The ids of what `receive` has returned and is not acked. */
  readonly #out = new Unacked<string>()
  #reading: Promise<readonly StreamEntry[]> | undefined
  /** Behind which id to go on with what the consumer has had before, or `>`: it has none of that any more. */
  #behind = FIRST
  #claimFrom = FIRST
  #claimAtMs = 0

  constructor(client: Redis, place: StreamConsumer) {
    this.#client = client
    this.#place = place
  }

  /** @throws if the stream or its group is missing, or the login may not read it: the server says so */
  async check(): Promise<void> {
    await this.#read(FIRST, 1)
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    while (this.#ready.length === 0 && !signal.aborted) {
      // A read that was waited for in vain goes on, and may deliver entries yet.
      this.#reading ??= this.#next(most)
      const entries = await untilAborted(this.#reading, signal)
      if (entries === undefined) return []
      this.#reading = undefined
      this.#ready.push(...(await this.#withoutRemoved(entries)))
    }
    return this.#ready.splice(0, most).map((entry) => this.#given(entry))
  }

  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    await this.#ack(this.#out.of(messages))
    this.#out.forget(messages)
  }

  async close(): Promise<void> {
    this.#client.disconnect()
  }

  /** What the consumer has had before and not acked, then what other consumers have left, then what is new. */
  async #next(most: number): Promise<readonly StreamEntry[]> {
    if (this.#behind !== NEW) {
      const own = await this.#read(this.#behind, most)
      this.#behind = own.at(-1)?.id ?? NEW
      if (own.length > 0) return own
    }
    if (performance.now() >= this.#claimAtMs) {
      const left = await this.#claim(most)
      if (left.length > 0) return left
    }
    return this.#read(NEW, most)
  }

  async #read(behind: string, most: number): Promise<readonly StreamEntry[]> {
    const { stream, group, consumer } = this.#place
    const count = ['COUNT', most, 'BLOCK', BLOCK_MS, 'STREAMS', stream, behind]
    const answer = await said(this.#client.callBuffer('XREADGROUP', 'GROUP', group, consumer, ...count))
    const [ofStream] = listOf(answer)
    return entriesIn(listOf(ofStream)[1])
  }

  async #claim(most: number): Promise<readonly StreamEntry[]> {
    const { stream, group, consumer } = this.#place
    const terms = [stream, group, consumer, IDLE_MS, this.#claimFrom, 'COUNT', most]
    const [next, entries] = listOf(await said(this.#client.callBuffer('XAUTOCLAIM', ...terms)))
    this.#claimFrom = String(next)
    if (this.#claimFrom === FIRST) this.#claimAtMs = performance.now() + CLAIM_EVERY_MS
    return entriesIn(entries)
  }

  /** The group keeps the ids of entries that were removed, and would deliver them again for ever. */
  async #withoutRemoved(entries: readonly StreamEntry[]): Promise<readonly StreamEntry[]> {
    await this.#ack(entries.filter(({ fields }) => fields === undefined).map(({ id }) => id))
    return entries.filter(({ fields }) => fields !== undefined)
  }

  async #ack(ids: readonly string[]): Promise<void> {
    const { stream, group } = this.#place
    if (ids.length > 0) await said(this.#client.xack(stream, group, ...ids))
  }

  #given({ id, fields = [] }: StreamEntry): ReceivedMessage {
    const given = receivedOf(fields)
    this.#out.set(given, id)
    return given
  }
}

/** @throws the server's error, with what to do */
async function said<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer
  } catch (error) {
    throw withRemedy(error)
  }
}

const FIRST = '0-0'
/** Entries that no consumer has had. */
const NEW = '>'
/** A consumer that has not acked an entry for so long is taken for dead. */
const IDLE_MS = 60_000
const CLAIM_EVERY_MS = 15_000
