import { closed, opened } from '../basics/promises/opened.ts'
import { untilAborted } from '../basics/promises/until-aborted.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import type { EnqueueContext } from '../enqueue/enqueue.ts'
import { type HasPeer, type PeerState, worstOf } from '../statistics/peer-state.ts'
import type { Report } from '../telemetry/events.ts'
import { readBatch } from './incoming.ts'
import type { InboxPlan } from './options.ts'
import type { ReceivedMessage, ReceiverConnection } from './receiver.ts'
import { Side } from './side.ts'
import { BatchStore } from './store.ts'
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
export class Intake implements HasPeer {
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

  get peer(): PeerState | undefined {
    // What cannot be stored has been received: the broker does not stop the inbox then.
    const { peer } = this.#database
    return peer?.failure ? peer : worstOf([this.#receiver, this.#database])
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
    try {
      while (!signal.aborted) {
        await this.#receiver.untilNextTry(signal)
        if (!signal.aborted) await this.#next()
      }
    } finally {
      await this.#close()
    }
  }

  /** Receives until nothing has come for so long, or something is out of reach. */
  async runOnce(idleMs: number): Promise<void> {
    try {
      let received = true
      while (received && !this.#draining.signal.aborted) received = await this.#next(idleMs)
    } finally {
      await this.#close()
    }
  }

  /** Receives a batch, stores it and acks it. False: none has come, or something is out of reach. */
  async #next(idleMs?: number): Promise<boolean> {
    const messages = await this.#receive(idleMs)
    if (messages.length === 0) return false
    return (await this.#store(messages, idleMs !== undefined)) && this.#ack(messages)
  }

  async #receive(idleMs: number | undefined): Promise<readonly ReceivedMessage[]> {
    const idle = new AbortController()
    let timer: NodeJS.Timeout | undefined
    let proof: NodeJS.Timeout | undefined
    try {
      this.#connection ??= await this.#open()
      const { waitMs = 0 } = this.#connection
      if (!this.#receiver.isProven) proof = startTimer(() => this.#receiver.lasted(), waitMs + PROOF_MS)
      // Not AbortSignal.timeout, which lets the process end before its time where a receiver has no socket.
      if (idleMs !== undefined) timer = startTimer(() => idle.abort(), idleMs + waitMs)
      const { signal } = this.#draining
      const until = idleMs === undefined ? signal : AbortSignal.any([signal, idle.signal])
      return await this.#connection.receive(this.#plan.batchSize, until)
    } catch (error) {
      await this.#lose(error)
      return []
    } finally {
      clearTimeout(timer)
      clearTimeout(proof)
    }
  }

  async #open(): Promise<ReceiverConnection> {
    const signal = AbortSignal.any([this.#draining.signal, AbortSignal.timeout(OPEN_MS)])
    const connection = await opened(this.#plan.from, signal)
    this.#receiver.reached()
    return connection
  }

  /** Until it is stored: the broker would deliver it again behind later messages. False: it is not, or not all of it. */
  async #store(messages: readonly ReceivedMessage[], once: boolean): Promise<boolean> {
    const startedAt = performance.now()
    const batch = await readBatch(this.#context, this.#plan, messages)
    const store = new BatchStore(this.#context, this.#plan, batch)
    const isStored = await this.#runUntilStored(store, once)
    this.#count(store.stored, performance.now() - startedAt)
    return isStored
  }

  async #runUntilStored(store: BatchStore, once: boolean): Promise<boolean> {
    while (!this.#stopping.signal.aborted) {
      try {
        await store.run()
        this.#database.answered()
        return true
      } catch (error) {
        this.#database.failed(error)
        if (once) return false
        await this.#database.untilNextTry(this.#stopping.signal)
      }
    }
    return false
  }

  async #ack(messages: readonly ReceivedMessage[]): Promise<boolean> {
    const late = new AbortController()
    const timer = startTimer(() => late.abort(), ACK_MS)
    try {
      const acking = async () => this.#connection?.ack(messages)
      await untilAborted(acking(), late.signal)
      if (late.signal.aborted) throw new Error('no answer to the acks in time')
      this.#receiver.answered()
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
    const wasOpen = this.#connection !== undefined
    await this.#close()
    if (!this.#draining.signal.aborted) this.#receiver.failed(error, wasOpen)
  }

  async #close(): Promise<void> {
    const connection = this.#connection
    this.#connection = undefined
    if (connection !== undefined) await closed(connection)
  }

  #count({ enqueued, duplicates, letters }: Stored, durationMs: number): void {
    const counts = { enqueued, duplicates, dead: letters.length }
    if (enqueued + duplicates + counts.dead === 0) return
    const before = this.#counts
    this.#counts = {
      enqueued: before.enqueued + enqueued,
      duplicates: before.duplicates + duplicates,
      dead: before.dead + counts.dead,
    }
    const { queue, from } = this.#plan
    for (const { id, type, reason } of letters)
      this.#report({ kind: 'message.dead', queue, id, type, attempt: 0, reason, error: null })
    this.#report({ kind: 'inbox.stored', queue, receiver: from.system, ...counts, durationMs })
  }
}

const OPEN_MS = 10_000
/** A broker that refuses what it is asked says so within a round trip. */
const PROOF_MS = 2_000
/** More than an election in Kafka may take. */
const ACK_MS = 20_000
