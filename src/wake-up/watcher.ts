import { randomUUID } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { ClientConfig } from 'pg'
import pgListen, { type Subscriber as PgListenSubscriber } from '#pg-listen'
import { Backoff, pause } from '../connection/backoff.ts'
import { close } from '../connection/close.ts'
import { socketOf } from '../connection/sockets.ts'
import { SluiceError } from '../errors.ts'
import { type Report, toError } from '../telemetry/events.ts'
import { CHANNEL, format, parse } from './channel.ts'

type Subscriber = PgListenSubscriber<Record<string, unknown>>

/** Bundlers do not agree on what the default import of a CommonJS module is. */
const createSubscriber = ('default' in pgListen ? pgListen.default : pgListen) as typeof pgListen.default

export interface WatcherOptions {
  readonly connection: ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
  /** How often the connection proves that it is alive. @default 30000 */
  readonly heartbeatMs?: number
  /** How long an answer may take, and the notification that proves that it listens. @default 5000 */
  readonly answerMs?: number
  /** Notifies on the channel from another session, under a limit of time on the server. */
  readonly notify: (payload: string) => Promise<unknown>
  readonly workerId: () => number
  /** False while LISTEN would end up in a session that others share: then no connection is opened. @default true */
  readonly allowed?: () => boolean
  readonly onNotification: (queue: string) => void
  /** The watcher listens (again): whatever was notified in between is lost, so check. */
  readonly onUp: () => void
  readonly onDown: () => void
}

/** Nobody notifies here: to begin or end to listen is the heartbeat. */
const HEARTBEAT = 'sluice_heartbeat'

/**
 * The process's one LISTEN connection, on pg-listen. It listens again by itself, for as long as it takes. At its start
 * it proves itself by a notification that must arrive (LISTEN does not work through a transaction pooler), and later by
 * a heartbeat, which finds a half-open connection.
 *
 * No statement of this session may wait for a lock: the process would give up, and the server's session would wait on
 * without it, one more with every attempt. NOTIFY waits for a lock of the whole server, which a COMMIT that has
 * notified keeps while it waits for its standby. So the self-test is sent by the control connection, which has a
 * `lock_timeout`, and the heartbeat is a LISTEN or UNLISTEN, which waits for nothing.
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
      if (this.#options.allowed?.() !== false) {
        await this.#listen(() => backoff.reset()).catch((error: unknown) => this.#failed(toError(error)))
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
      await unlessOver(this.#prove())
      established()
      this.#up()
      for (;;) {
        await unlessOver(pause(this.#options.heartbeatMs ?? 30_000, signal))
        await unlessOver(this.#beat(subscriber))
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
    const subscriber = createSubscriber<Record<string, unknown>>(
      {
        ...config,
        connectionTimeoutMillis: this.#options.connectTimeoutMs,
        query_timeout: this.#options.answerMs ?? ANSWER_MS,
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
    const notification = parse(payload)
    if (notification.kind === 'self-test') this.#answers.get(notification.nonce)?.()
    else if (notification.kind === 'messages' || notification.workerId !== this.#options.workerId())
      this.#options.onNotification(notification.queue)
  }

  async #prove(): Promise<void> {
    const nonce = randomUUID()
    const answer = Promise.withResolvers<void>()
    const answerMs = this.#options.answerMs ?? ANSWER_MS
    const late = () => answer.reject(new Unproved(`A notification to itself did not arrive within ${answerMs} ms`))
    const timer = setTimeout(late, answerMs).unref()
    this.#answers.set(nonce, answer.resolve)
    try {
      await Promise.all([this.#notify(nonce), answer.promise])
    } finally {
      clearTimeout(timer)
      this.#answers.delete(nonce)
    }
  }

  async #notify(nonce: string): Promise<void> {
    try {
      await this.#options.notify(format({ kind: 'self-test', nonce }))
    } catch (cause) {
      throw new Unproved('The notification to itself could not be sent', { cause })
    }
  }

  async #beat(subscriber: Subscriber): Promise<void> {
    const listens = subscriber.getSubscribedChannels().includes(HEARTBEAT)
    try {
      await (listens ? subscriber.unlisten(HEARTBEAT) : subscriber.listenTo(HEARTBEAT))
    } catch (cause) {
      throw new Error(`The heartbeat failed, or was not answered within ${this.#options.answerMs ?? ANSWER_MS} ms`, {
        cause,
      })
    }
  }

  #up(): void {
    this.#listening = true
    if (this.#reported.size > 0) this.#options.report({ kind: 'connection.restored', role: 'listener' })
    this.#reported.clear()
    this.#options.onUp()
  }

  /** Reports each kind of failure once, until it listens again. */
  #failed(error: Error): void {
    // The control connection, which sends the self-test, speaks for itself.
    if (error.cause instanceof SluiceError && error.cause.code === 'UNREACHABLE') return
    const kind = error instanceof Unproved ? 'listener.unavailable' : 'connection.lost'
    if (this.#reported.has(kind) || this.#stopping.signal.aborted) return
    this.#reported.add(kind)
    this.#options.report(kind === 'connection.lost' ? { kind, role: 'listener', error } : { kind, error })
  }
}

const ANSWER_MS = 5_000

/** It listens, but nothing shows that notifications arrive. */
class Unproved extends Error {
  override readonly name = 'Unproved'
}

/** The configuration, and a way to destroy the socket of the one connection made with it. */
function withSocket(config: ClientConfig): { readonly config: ClientConfig; readonly destroy: () => void } {
  let socket: Duplex | undefined
  const stream = (...given: unknown[]) => {
    socket = socketOf(config, given)
    return socket
  }
  return { config: { ...config, stream }, destroy: () => socket?.destroy() }
}
