import { randomUUID } from 'node:crypto'
import { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { ClientConfig } from 'pg'
import pgListen, { type Subscriber as PgListenSubscriber } from 'pg-listen'
import { Backoff, pause } from '../connection/backoff.ts'
import { close } from '../connection/close.ts'
import { type Report, toError } from '../telemetry.ts'

type Subscriber = PgListenSubscriber<Record<string, unknown>>

export interface WatcherOptions {
  readonly connection: ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
  /** How often the connection proves itself by a notification to itself. @default 30000 */
  readonly heartbeatMs?: number
  /** How long that notification may take. @default 5000 */
  readonly answerMs?: number
  readonly workerId: () => number
  /** False while LISTEN would end up in a session that others share: then no connection is opened. @default true */
  readonly allowed?: () => boolean
  readonly onNotification: (queue: string) => void
  /** The watcher listens (again): whatever was notified in between is lost, so look. */
  readonly onUp: () => void
  readonly onDown: () => void
}

/**
 * The one channel. A payload is the name of a queue; or, starting with `!` as no name can, `!<worker>!<queue>` from a
 * worker that no longer waits for that queue; or a heartbeat.
 */
const CHANNEL = 'sluice'

/**
 * The process's one LISTEN connection, on pg-listen. It listens again by itself, for as long as it takes. A
 * notification to itself, answered in time, is both the self-test at the start (LISTEN does not work through a
 * transaction pooler) and the heartbeat that finds a half-open connection.
 *
 * pg-listen's own reconnection is switched off (a retry limit of one means none): it gives up after three seconds by
 * default, goes on after close(), and leaks a session then. A lost connection is replaced by a new subscriber.
 */
export class Watcher {
  readonly #options: WatcherOptions
  readonly #stopping = new AbortController()
  readonly #answers = new Map<string, () => void>()
  readonly #reported = new Set<'connection.lost' | 'listener.unavailable'>()
  #listening = false
  #running: Promise<void> | undefined

  constructor(options: WatcherOptions) {
    this.#options = options
  }

  /** Whether notifications arrive. */
  get listening(): boolean {
    return this.#listening
  }

  /** Starts to listen in the background. */
  start(): void {
    this.#running ??= this.#run()
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const backoff = new Backoff(50, 5_000)
    while (!this.#stopping.signal.aborted) {
      let proved = false
      const established = () => {
        proved = true
        backoff.reset()
      }
      if (this.#options.allowed?.() !== false) {
        await this.#listen(established).catch((error: unknown) => this.#failed(toError(error), proved))
      }
      await pause(backoff.next(), this.#stopping.signal)
    }
  }

  /** One connection's life: ends by an error, or when the watcher stops. */
  async #listen(established: () => void): Promise<void> {
    const { signal } = this.#stopping
    const over = Promise.withResolvers<never>()
    over.promise.catch(() => undefined)
    const stop = () => over.reject(signal.reason)
    signal.addEventListener('abort', stop)
    const { config, destroy } = withSocket(this.#options.connection)
    const subscriber = this.#subscriber(config, over.reject)
    const unlessOver = <T>(step: Promise<T> | undefined) => Promise.race([step, over.promise])
    try {
      await unlessOver(subscriber.connect())
      await unlessOver(subscriber.listenTo(CHANNEL))
      await unlessOver(this.#prove(subscriber))
      established()
      this.#up()
      for (;;) {
        await unlessOver(pause(this.#options.heartbeatMs ?? 30_000, signal))
        await unlessOver(this.#prove(subscriber))
      }
    } finally {
      signal.removeEventListener('abort', stop)
      const wasListening = this.#listening
      this.#listening = false
      if (wasListening) this.#options.onDown()
      else destroy()
      await close(() => subscriber.close(), destroy)
    }
  }

  #subscriber(config: ClientConfig, lost: (error: Error) => void): Subscriber {
    const subscriber = pgListen.default<Record<string, unknown>>(
      {
        ...config,
        connectionTimeoutMillis: this.#options.connectTimeoutMs,
        query_timeout: this.#options.answerMs ?? 5_000,
        keepAliveInitialDelayMillis: 10_000,
        application_name: 'sluice listener',
      },
      { retryLimit: 1, paranoidChecking: false, parse: (text) => text, serialize: String },
    )
    // What pg-listen says is that it did not reconnect.
    subscriber.events.on('error', () => lost(new Error('The connection ended')))
    subscriber.events.on('notification', ({ payload }) => {
      if (typeof payload === 'string') this.#received(payload)
    })
    return subscriber
  }

  #received(payload: string): void {
    const told = /^!(\d+)!(.*)$/s.exec(payload)
    if (told === null && payload.startsWith('!')) this.#answers.get(payload)?.()
    else if (told === null) this.#options.onNotification(payload)
    else if (Number(told[1]) !== this.#options.workerId()) this.#options.onNotification(told[2] ?? '')
  }

  async #prove(subscriber: Subscriber): Promise<void> {
    const nonce = `!${randomUUID()}`
    const answer = Promise.withResolvers<void>()
    const answerMs = this.#options.answerMs ?? 5_000
    const timer = setTimeout(() => answer.reject(new Unanswered(answerMs)), answerMs).unref()
    this.#answers.set(nonce, answer.resolve)
    try {
      await Promise.all([subscriber.notify(CHANNEL, nonce), answer.promise])
    } finally {
      clearTimeout(timer)
      this.#answers.delete(nonce)
    }
  }

  #up(): void {
    this.#listening = true
    if (this.#reported.size > 0) this.#options.report({ kind: 'connection.restored', role: 'listener' })
    this.#reported.clear()
    this.#options.onUp()
  }

  /** Reports each kind of failure once, until it listens again. */
  #failed(error: Error, proved: boolean): void {
    const kind = error instanceof Unanswered && !proved ? 'listener.unavailable' : 'connection.lost'
    if (this.#reported.has(kind) || this.#stopping.signal.aborted) return
    this.#reported.add(kind)
    this.#options.report(kind === 'connection.lost' ? { kind, role: 'listener', error } : { kind, error })
  }
}

class Unanswered extends Error {
  override readonly name = 'Unanswered'

  constructor(ms: number) {
    super(`A notification to itself did not arrive within ${ms} ms`)
  }
}

/** The configuration, and a way to destroy the socket of the one connection made with it. */
function withSocket(config: ClientConfig): { readonly config: ClientConfig; readonly destroy: () => void } {
  let socket: Duplex | undefined
  const stream = () => {
    socket = config.stream?.() ?? new Socket()
    return socket
  }
  return { config: { ...config, stream }, destroy: () => socket?.destroy() }
}
