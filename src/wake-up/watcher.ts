import { randomUUID } from 'node:crypto'
import type { Duplex } from 'node:stream'
import type { ClientConfig } from 'pg'
import pgListen, { type Subscriber as PgListenSubscriber } from 'pg-listen'
import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import { close } from '../connection/close.ts'
import { socketOf } from '../connection/sockets.ts'
import { SluiceError, toError } from '../errors.ts'
import type { Report } from '../telemetry/events.ts'
import { CHANNEL, format, parse } from './channel.ts'

type Subscriber = PgListenSubscriber<Record<string, unknown>>

/** Bundlers disagree about the default import of a CommonJS module. */
const createSubscriber = ('default' in pgListen ? pgListen.default : pgListen) as typeof pgListen.default

export interface WatcherOptions {
  readonly connection: ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
  /** How often to check that the connection is alive, in milliseconds. @default 30000 */
  readonly heartbeatMs?: number
  /** How long an answer, and the notification of the self-test, may take, in milliseconds. @default 5000 */
  readonly answerMs?: number
  /** Notifies on the channel from another session, with a time limit on the server. */
  readonly notify: (payload: string) => Promise<unknown>
  readonly workerId: () => number
  /** False while LISTEN would reach a session that others share. Then no connection is opened. @default true */
  readonly allowed?: () => boolean
  readonly onNotification: (queue: string) => void
  /** A message in flight may have been cancelled. */
  readonly onCancelled?: ((queue: string) => void) | undefined
  /** Holds of messages that are gone must be removed. */
  readonly onHolds?: ((queue: string) => void) | undefined
  /** A setting of a queue has changed. */
  readonly onSettings: (queue: string) => void
  /** The watcher listens (again). Notifications in between are lost, so check all queues. */
  readonly onUp: () => void
  readonly onDown: () => void
}

/** Nothing notifies on this channel. LISTEN and UNLISTEN on it are the heartbeat. */
const HEARTBEAT = 'sluice_heartbeat'

/**
 * The LISTEN connection of a process, on pg-listen. If it is lost, it is replaced, however long that takes. At its
 * start a self-test checks that a notification arrives, because LISTEN does not work through a transaction pooler.
 * Later a heartbeat finds a half-open connection.
 *
 * No statement of this session may wait for a lock: the process would give up, and the server's session would go on
 * waiting without it, one more with every attempt. NOTIFY waits for a lock of the whole server, which a COMMIT that has
 * notified keeps while it waits for its standby. So the control connection, which has a `lock_timeout`, sends the
 * self-test, and the heartbeat is a LISTEN or UNLISTEN, which waits for nothing.
 *
 * pg-listen's own reconnection is switched off (a retry limit of one means none): by default it gives up after three
 * seconds, and after close() it goes on and leaks a session. A new subscriber replaces a lost connection.
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

  /** The life of one connection. It ends with an error, or when the watcher stops. */
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
    // pg-listen only says that it did not reconnect.
    subscriber.events.on('error', () => lost(new Error('The connection ended')))
    subscriber.events.on('notification', ({ payload }) => {
      if (typeof payload === 'string') this.#received(payload)
    })
    return subscriber
  }

  #received(payload: string): void {
    const notification = parse(payload)
    if (notification.kind === 'self-test') this.#answers.get(notification.nonce)?.()
    else if (notification.kind === 'cancelled') this.#options.onCancelled?.(notification.queue)
    else if (notification.kind === 'holds') this.#options.onHolds?.(notification.queue)
    else if (notification.kind === 'settings') this.#options.onSettings(notification.queue)
    else if (notification.kind === 'messages' || notification.workerId !== this.#options.workerId())
      this.#options.onNotification(notification.queue)
  }

  async #prove(): Promise<void> {
    const nonce = randomUUID()
    const answer = Promise.withResolvers<void>()
    const answerMs = this.#options.answerMs ?? ANSWER_MS
    const late = () => answer.reject(new Unproved(`A notification to itself did not arrive within ${answerMs} ms`))
    const timer = startTimer(late, answerMs).unref()
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
    // The control connection, which sends the self-test, reports its own failures.
    if (error.cause instanceof SluiceError && error.cause.code === 'UNREACHABLE') return
    const kind = error instanceof Unproved ? 'listener.unavailable' : 'connection.lost'
    if (this.#reported.has(kind) || this.#stopping.signal.aborted) return
    this.#reported.add(kind)
    this.#options.report(kind === 'connection.lost' ? { kind, role: 'listener', error } : { kind, error })
  }
}

const ANSWER_MS = 5_000

/** It listens, but the self-test's notification did not arrive. */
class Unproved extends Error {
  override readonly name = 'Unproved'
}

/** The configuration of one connection, and a way to destroy its socket. */
function withSocket(config: ClientConfig): { readonly config: ClientConfig; readonly destroy: () => void } {
  let socket: Duplex | undefined
  const stream = (...given: unknown[]) => {
    socket = socketOf(config, given)
    return socket
  }
  return { config: { ...config, stream }, destroy: () => socket?.destroy() }
}
