import { closed, opened } from '../basics/opened.ts'
import { startTimer } from '../basics/start-timer.ts'
import { untilAborted } from '../basics/until-aborted.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import type { Report } from '../telemetry/events.ts'
import { readIncoming } from './incoming.ts'
import type { InboxPlan } from './options.ts'
import type { ReceivedMessage, ReceiverConnection } from './receiver.ts'
import { Side } from './side.ts'
import { store } from './store.ts'
import type { Stored } from './store-batch.ts'

/** What an inbox has made of the messages that it has received. */
export interface InboxStatistics {
  /** Messages that it has enqueued. */
  readonly enqueued: number
  /** Copies of messages that had been received before, dropped. */
  readonly duplicates: number
  /** Messages that can never be enqueued: dead letters. */
  readonly dead: number
}

/** Receives one batch after another: it stores each, and acks it then. */
export class Intake {
  readonly #context: EnqueueContext
  readonly #plan: InboxPlan
  readonly #report: Report
  readonly #receiver: Side
  readonly #database: Side
  /** Aborts when nothing more is to be received. */
  readonly #draining = new AbortController()
  /** Aborts when the batch in hand is to be given up. */
  readonly #stopping = new AbortController()
  #connection: ReceiverConnection | undefined
  #counts: InboxStatistics = { enqueued: 0, duplicates: 0, dead: 0 }

  constructor(context: EnqueueContext, plan: InboxPlan, report: Report) {
    this.#context = context
    this.#plan = plan
    this.#report = report
    this.#receiver = new Side('receiver', plan, report)
    this.#database = new Side('database', plan, report)
  }

  get counts(): InboxStatistics {
    return this.#counts
  }

  /** Receives nothing more. */
  drain(): void {
    this.#draining.abort()
  }

  /** Besides, tries no longer to store the batch in hand. */
  stop(): void {
    this.#draining.abort()
    this.#stopping.abort()
  }

  /** Receives until it is drained. What is out of reach is waited for. */
  async run(): Promise<void> {
    const { signal } = this.#draining
    while (!signal.aborted) {
      await this.#receiver.untilNextTry(signal)
      if (!signal.aborted) await this.#next()
    }
    await this.#close()
  }

  /** Receives until nothing has come for so long, or something is out of reach. */
  async runOnce(idleMs: number): Promise<void> {
    let received = true
    while (received && !this.#draining.signal.aborted) received = await this.#next(idleMs)
    await this.#close()
  }

  /** Receives a batch, stores it and acks it. False: none has come, or something is out of reach. */
  async #next(idleMs?: number): Promise<boolean> {
    const messages = await this.#receive(idleMs)
    if (messages.length === 0) return false
    const stored = await this.#store(messages, idleMs !== undefined)
    if (stored === undefined) return false
    this.#count(stored)
    return this.#ack(messages)
  }

  async #receive(idleMs: number | undefined): Promise<readonly ReceivedMessage[]> {
    const { from, batchSize } = this.#plan
    const { signal } = this.#draining
    try {
      if (this.#connection === undefined) {
        this.#connection = await opened(from, AbortSignal.any([signal, AbortSignal.timeout(OPEN_MS)]))
        this.#receiver.answered()
      }
      const until = idleMs === undefined ? signal : AbortSignal.any([signal, AbortSignal.timeout(idleMs)])
      return await this.#connection.receive(batchSize, until)
    } catch (error) {
      await this.#lose(error)
      return []
    }
  }

  /** Until it is stored: the broker would deliver it again behind later messages. Undefined: it is not. */
  async #store(messages: readonly ReceivedMessage[], once: boolean): Promise<Stored | undefined> {
    const startedAt = performance.now()
    const batch = await Promise.all(messages.map((message) => readIncoming(this.#context, this.#plan, message)))
    while (!this.#stopping.signal.aborted) {
      try {
        const stored = await store(this.#context, this.#plan, batch)
        this.#database.answered()
        this.#tell(stored, performance.now() - startedAt)
        return stored
      } catch (error) {
        this.#database.failed(error)
        if (once) return undefined
        await this.#database.untilNextTry(this.#stopping.signal)
      }
    }
    return undefined
  }

  async #ack(messages: readonly ReceivedMessage[]): Promise<boolean> {
    const late = new AbortController()
    const timer = startTimer(() => late.abort(), ACK_MS)
    try {
      const acking = async () => this.#connection?.ack(messages)
      await untilAborted(acking(), late.signal)
      if (late.signal.aborted) throw new Error('no answer to the acks in time')
      return true
    } catch (error) {
      await this.#lose(error)
      return false
    } finally {
      clearTimeout(timer)
    }
  }

  /** The connection is of no use any more. What was received and not acked comes again. */
  async #lose(error: unknown): Promise<void> {
    await this.#close()
    if (!this.#draining.signal.aborted) this.#receiver.failed(error)
  }

  async #close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    if (connection !== undefined) await closed(connection)
  }

  #count({ enqueued, duplicates, letters }: Stored): void {
    const before = this.#counts
    this.#counts = {
      enqueued: before.enqueued + enqueued,
      duplicates: before.duplicates + duplicates,
      dead: before.dead + letters.length,
    }
  }

  #tell({ enqueued, duplicates, letters }: Stored, durationMs: number): void {
    const { queue, from } = this.#plan
    for (const { id, reason } of letters)
      this.#report({ kind: 'message.dead', queue, id, type: null, attempt: 0, reason, error: null })
    const counts = { enqueued, duplicates, dead: letters.length }
    this.#report({ kind: 'inbox.stored', queue, receiver: from.system, ...counts, durationMs })
  }
}

const OPEN_MS = 10_000
const ACK_MS = 10_000
