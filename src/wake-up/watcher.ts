import { randomUUID } from 'node:crypto'
import type { ClientConfig } from 'pg'
import pgListen, { type Subscriber } from 'pg-listen'
import { Backoff, pause } from '../connection/backoff.ts'
import { type Report, toError } from '../telemetry.ts'

export interface WatcherOptions {
  readonly connection: ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
  /** How often the connection proves itself by a notification to itself. @default 30000 */
  readonly heartbeatMs?: number
  /** How long that notification may take. @default 5000 */
  readonly answerMs?: number
  readonly workerId: () => number
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
  #listening = false
  #unavailable = false
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
      try {
        await this.#listen(() => backoff.reset())
      } catch (error) {
        this.#failed(toError(error))
      }
      if (!this.#stopping.signal.aborted) await pause(backoff.next(), this.#stopping.signal)
    }
  }

  /** One connection's life: ends by an error, or when the watcher stops. */
  async #listen(established: () => void): Promise<void> {
    const lost = Promise.withResolvers<never>()
    lost.promise.catch(() => undefined)
    const subscriber = this.#subscriber(lost.reject)
    try {
      await subscriber.connect()
      await subscriber.listenTo(CHANNEL)
      await Promise.race([this.#prove(subscriber), lost.promise])
      established()
      this.#up()
      while (!this.#stopping.signal.aborted) {
        await Promise.race([pause(this.#options.heartbeatMs ?? 30_000, this.#stopping.signal), lost.promise])
        if (!this.#stopping.signal.aborted) await Promise.race([this.#prove(subscriber), lost.promise])
      }
    } finally {
      if (this.#listening) {
        this.#listening = false
        this.#options.onDown()
      }
      await subscriber.close().catch(() => undefined)
    }
  }

  #subscriber(lost: (error: Error) => void): Subscriber<Record<string, unknown>> {
    const subscriber = pgListen.default<Record<string, unknown>>(
      {
        ...this.#options.connection,
        connectionTimeoutMillis: this.#options.connectTimeoutMs,
        query_timeout: this.#options.answerMs ?? 5_000,
        keepAliveInitialDelayMillis: 10_000,
        application_name: 'sluice listener',
      },
      { retryLimit: 1, paranoidChecking: false, parse: (text) => text, serialize: String },
    )
    subscriber.events.on('error', lost)
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

  async #prove(subscriber: Subscriber<Record<string, unknown>>): Promise<void> {
    const nonce = `!${randomUUID()}`
    const answer = Promise.withResolvers<void>()
    const answerMs = this.#options.answerMs ?? 5_000
    const timer = setTimeout(
      () => answer.reject(new Error(`A notification to itself did not arrive within ${answerMs} ms`)),
      answerMs,
    )
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
    if (this.#unavailable) this.#options.report({ kind: 'connection.restored', role: 'listener' })
    this.#unavailable = false
    this.#options.onUp()
  }

  /** Reports a loss once: until it listens again, every further attempt fails for the same reason. */
  #failed(error: Error): void {
    if (this.#unavailable || this.#stopping.signal.aborted) return
    this.#unavailable = true
    this.#options.report({ kind: 'listener.unavailable', error })
  }
}
