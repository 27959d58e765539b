import pg from 'pg'
import { Backoff } from '../basics/time/backoff.ts'
import { pause } from '../basics/time/pause.ts'
import { startTimer } from '../basics/time/start-timer.ts'
import { SluiceError, toError } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { configureControl } from '../table/worker/worker.ts'
import type { Report } from '../telemetry/events.ts'
import { isShared } from './is-shared.ts'
import { closeClient, executeOn, openClient } from './open-client.ts'
import { unreachable } from './unreachable.ts'

export interface ControlOptions {
  readonly connection: pg.ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
  /**
   * The user has given this address as a direct one: a pooler there counts as one in session mode until it shows
   * otherwise. @default false
   */
  readonly vouched?: boolean
  /**
   * How long a statement may take. Each is short, and the server ends its wait for a lock long before. So after this
   * time the connection counts as half-open. @default 10000
   */
  readonly answerMs?: number
}

/**
 * The process's control connection: the worker's registration and liveness lock, the waiting flags, the safety poll,
 * and the record of batches in flight. One per process, never inside a transaction. It reconnects by itself, for as long
 * as that takes. Parts that set something up in each new session do so in `onUp`.
 */
export class Control {
  readonly #options: ControlOptions
  readonly #stopping = new AbortController()
  readonly #upListeners: ((execute: Execute) => Promise<void>)[] = []
  readonly #restoredListeners: (() => void)[] = []
  readonly #downListeners: (() => void)[] = []
  #client: pg.Client | undefined
  #shared = false
  #restoring: Promise<void> | undefined
  /** The reasons that have been reported since it went down. */
  readonly #reported = new Set<string>()

  constructor(options: ControlOptions) {
    this.#options = options
  }

  /** Runs at every (re)connection, in order of registration, before anybody else uses the connection. */
  onUp(listener: (execute: Execute) => Promise<void>): void {
    this.#upListeners.push(listener)
  }

  /** Runs when the connection can be used again, after all listeners of `onUp`. */
  onRestored(listener: () => void): void {
    this.#restoredListeners.push(listener)
  }

  /** Runs when the connection is lost: its session locks are gone with it. */
  onDown(listener: () => void): void {
    this.#downListeners.push(listener)
  }

  /** The server session belongs to others too: see {@link isShared}. */
  get shared(): boolean {
    return this.#shared
  }

  /** Identifies the connection: another object after each reconnection, undefined while it is down. */
  get session(): object | undefined {
    return this.#client
  }

  /** @throws SluiceError UNREACHABLE within the connect timeout, or when the server stops answering. */
  async start(): Promise<void> {
    try {
      await this.#connect(this.#options.connectTimeoutMs)
    } catch (error) {
      // What the server itself says, about privileges for example, tells more.
      throw error instanceof SluiceError || error instanceof pg.DatabaseError ? error : unreachable(error)
    }
  }

  /** Runs a statement. @throws SluiceError UNREACHABLE while the connection is being restored. */
  readonly execute: Execute = async (statement, params) => {
    return executeOn(this.#up())(statement, params)
  }

  /** @throws SluiceError UNREACHABLE while the connection is being restored. */
  requireUp(): void {
    this.#up()
  }

  /** Closes the connection, or gives up restoring it. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    const client = this.#client
    this.#client = undefined
    if (client !== undefined) await closeClient(client)
    await this.#restoring
  }

  #up(): pg.Client {
    if (this.#client !== undefined) return this.#client
    throw new SluiceError('UNREACHABLE', 'The control connection is down and being restored')
  }

  #open(): Promise<pg.Client> {
    return openClient(
      {
        ...this.#options.connection,
        connectionTimeoutMillis: this.#options.connectTimeoutMs,
        query_timeout: this.#options.answerMs ?? 10_000,
        application_name: 'sluice control',
      },
      this.#stopping.signal,
    )
  }

  /** @param limitMs for connecting and setting up the session together. */
  async #connect(limitMs: number): Promise<void> {
    const { signal } = this.#stopping
    const startedAt = performance.now()
    const client = await this.#open()
    client.once('end', () => this.#lost(client))
    const giveUp = () => client.connection.stream.destroy()
    signal.addEventListener('abort', giveUp)
    // A server may fall silent after it has let us in.
    const late = startTimer(giveUp, limitMs - (performance.now() - startedAt))
    try {
      await this.#learnSession(client)
      if (!this.#shared) await configureControl(executeOn(client))
      for (const listener of this.#upListeners) await listener(executeOn(client))
      signal.throwIfAborted()
    } catch (error) {
      void closeClient(client)
      throw error
    } finally {
      clearTimeout(late)
      signal.removeEventListener('abort', giveUp)
    }
    this.#client = client
  }

  async #learnSession(client: pg.Client): Promise<void> {
    const before = this.#shared
    this.#shared = await isShared(client, this.#options.vouched ?? false, () => this.#open())
    if (this.#shared && !before) {
      this.#options.report({ kind: 'connection.pooled', role: 'control', reason: WITHOUT_SESSION })
    }
  }

  #lost(client: pg.Client): void {
    if (this.#client !== client) return
    this.#client = undefined
    for (const listener of this.#downListeners) listener()
    if (this.#stopping.signal.aborted) return
    this.#report(new Error('The connection ended'))
    this.#restoring ??= this.#restore().finally(() => {
      this.#restoring = undefined
    })
  }

  async #restore(): Promise<void> {
    const backoff = new Backoff(50, 5_000)
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#connect(LONGEST_RESTORE_MS)
        this.#reported.clear()
        this.#options.report({ kind: 'connection.restored', role: 'control' })
        for (const listener of this.#restoredListeners) listener()
        return
      } catch (error) {
        this.#report(toError(error))
        await pause(backoff.next(), this.#stopping.signal)
      }
    }
  }

  /** Reports a reason once, not with every attempt. */
  #report(error: Error): void {
    if (this.#stopping.signal.aborted || this.#reported.has(error.message)) return
    this.#reported.add(error.message)
    this.#options.report({ kind: 'connection.lost', role: 'control', error })
  }
}

/** For one attempt, while the server is busy with all others that reconnect. Each statement has its own limit too. */
const LONGEST_RESTORE_MS = 60_000

const WITHOUT_SESSION =
  'The control connection uses a pooler: only the poll wakes workers, and crashes are not counted. ' +
  'Give directConnection an address that leads to the server'
