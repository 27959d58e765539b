import { noteKind } from '../basics/adapter-kinds.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import type { ReceivedMessage, Receiver, ReceiverConnection } from '../inbox/receiver.ts'

/** A message for a receiver in memory. */
export interface MemoryMessage extends Partial<Omit<ReceivedMessage, 'body'>> {
  /** The body, as JSON. */
  readonly payload?: unknown
  /** The body, where it is not JSON. */
  readonly body?: Uint8Array | undefined
}

/**
 * A receiver in memory, for tests of what an inbox does: it delivers what it is given, and again what has not been acked.
 *
 * @example
 * const from = new MemoryReceiver()
 * from.deliver({ id: '1', payload: { id: 7 } }, { id: '1', payload: { id: 7 } })
 * expect(await sluice.inbox('orders-in', { from }).runOnce({ wait: '50ms' })).toMatchObject({ enqueued: 1, duplicates: 1 })
 */
export class MemoryReceiver implements Receiver {
  readonly system = 'memory'
  /** What has been acked, in the order in which it was. */
  readonly acked: ReceivedMessage[] = []
  /** How many connections are open. */
  connections = 0
  /** Called before messages are acked. If it throws, or its promise rejects, they are not. */
  onAck: (messages: readonly ReceivedMessage[]) => void | Promise<void> = () => undefined
  readonly #ready: ReceivedMessage[] = []
  #changed = Promise.withResolvers<void>()
  #reachable = true

  constructor() {
    noteKind('receiver', this)
  }

  /** False: no connection can be had, and one that is open is broken. */
  get reachable(): boolean {
    return this.#reachable
  }

  set reachable(reachable: boolean) {
    this.#reachable = reachable
    this.#tell()
  }

  /** Adds messages behind those that it has. */
  deliver(...messages: readonly MemoryMessage[]): void {
    this.#ready.push(...messages.map(received))
    this.#tell()
  }

  async open(): Promise<ReceiverConnection> {
    if (!this.#reachable) throw new Error(OUT_OF_REACH)
    this.connections += 1
    return new MemoryConnection({
      take: (most, isOver, signal) => this.#take(most, isOver, signal),
      ack: (messages) => this.#ack(messages),
      putBack: (messages) => {
        this.#ready.unshift(...messages)
        this.#tell()
      },
      leave: () => {
        this.connections -= 1
        this.#tell()
      },
    })
  }

  async #take(most: number, isOver: () => boolean, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    while (this.#ready.length === 0 && this.#reachable && !signal.aborted && !isOver())
      await untilAborted(this.#changed.promise, signal)
    if (!this.#reachable) throw new Error(OUT_OF_REACH)
    return this.#ready.splice(0, most)
  }

  async #ack(messages: readonly ReceivedMessage[]): Promise<void> {
    await this.onAck(messages)
    if (!this.#reachable) throw new Error(OUT_OF_REACH)
    this.acked.push(...messages)
  }

  #tell(): void {
    this.#changed.resolve()
    this.#changed = Promise.withResolvers()
  }
}

interface Hands {
  readonly take: (most: number, isOver: () => boolean, signal: AbortSignal) => Promise<readonly ReceivedMessage[]>
  readonly ack: (messages: readonly ReceivedMessage[]) => Promise<void>
  readonly putBack: (messages: readonly ReceivedMessage[]) => void
  readonly leave: () => void
}

class MemoryConnection implements ReceiverConnection {
  readonly #hands: Hands
  /** What has not been acked. */
  readonly #out = new Set<ReceivedMessage>()
  #closed = false

  constructor(hands: Hands) {
    this.#hands = hands
  }

  async receive(most: number, signal: AbortSignal): Promise<readonly ReceivedMessage[]> {
    if (this.#closed) throw new Error('closed')
    const messages = await this.#hands.take(most, () => this.#closed, signal)
    if (this.#closed) {
      this.#hands.putBack(messages)
      throw new Error('closed')
    }
    for (const message of messages) this.#out.add(message)
    return messages
  }

  async ack(messages: readonly ReceivedMessage[]): Promise<void> {
    if (this.#closed) throw new Error('closed')
    await this.#hands.ack(messages)
    for (const message of messages) this.#out.delete(message)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#hands.putBack([...this.#out])
    this.#hands.leave()
  }
}

function received({ id, payload, body, headers = {}, type, orderingKey }: MemoryMessage): ReceivedMessage {
  return { id, body: body ?? TO_UTF_8.encode(JSON.stringify(payload ?? null)), headers, type, orderingKey }
}

const TO_UTF_8 = new TextEncoder()
const OUT_OF_REACH = 'out of reach'
