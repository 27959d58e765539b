import type pg from 'pg'
import { SluiceError } from '../errors.ts'
import type { Execute } from '../table/statement.ts'
import { type Report, toError } from '../telemetry.ts'
import { Backoff, pause } from './backoff.ts'
import { executeOn, openClient } from './open-client.ts'

export interface ControlOptions {
  readonly connection: pg.ClientConfig
  readonly connectTimeoutMs: number
  readonly report: Report
}

/**
 * The process's control connection: the worker's registration and liveness lock, the waiting flags, the safety poll,
 * and the record of batches in hand. One per process, never inside a transaction. It connects again by itself, for
 * as long as it takes; whoever needs to set up its session again does so in `onUp`.
 */
export class Control {
  readonly #options: ControlOptions
  readonly #stopping = new AbortController()
  readonly #upListeners: ((execute: Execute) => Promise<void>)[] = []
  readonly #downListeners: (() => void)[] = []
  #client: pg.Client | undefined
  #restoring: Promise<void> | undefined

  constructor(options: ControlOptions) {
    this.#options = options
  }

  /** Runs at every (re)connection, in order of registration, before anyone else may use the connection. */
  onUp(listener: (execute: Execute) => Promise<void>): void {
    this.#upListeners.push(listener)
  }

  /** Runs when the connection is lost: its session locks are gone with it. */
  onDown(listener: () => void): void {
    this.#downListeners.push(listener)
  }

  /** @throws SluiceError UNREACHABLE within the connect timeout. */
  async start(): Promise<void> {
    await this.#connect()
  }

  /** Runs a statement. @throws SluiceError UNREACHABLE while the connection is being restored. */
  readonly execute: Execute = async (statement, params) => {
    const client = this.#client
    if (client === undefined) throw new SluiceError('UNREACHABLE', 'The control connection is down and being restored')
    return executeOn(client)(statement, params)
  }

  /** Resolves when the connection is up, or when control stops. */
  async up(): Promise<void> {
    await this.#restoring
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
    await this.#restoring
  }

  async #connect(): Promise<void> {
    const client = await openClient({
      ...this.#options.connection,
      connectionTimeoutMillis: this.#options.connectTimeoutMs,
      // Every statement here is short and waits for no lock: no answer means that the connection is half-open.
      query_timeout: 10_000,
      application_name: 'sluice control',
    })
    client.once('end', () => this.#lost(client, new Error('The connection ended')))
    try {
      for (const listener of this.#upListeners) await listener(executeOn(client))
    } catch (error) {
      void client.end().catch(() => undefined)
      throw error
    }
    this.#client = client
  }

  #lost(client: pg.Client, error: Error): void {
    if (this.#client !== client) return
    this.#client = undefined
    for (const listener of this.#downListeners) listener()
    if (this.#stopping.signal.aborted) return
    this.#options.report({ kind: 'connection.lost', role: 'control', error })
    this.#restoring ??= this.#restore().finally(() => {
      this.#restoring = undefined
    })
  }

  async #restore(): Promise<void> {
    const backoff = new Backoff(50, 5_000)
    while (!this.#stopping.signal.aborted) {
      try {
        await this.#connect()
        this.#options.report({ kind: 'connection.restored', role: 'control' })
        return
      } catch (error) {
        this.#options.report({ kind: 'connection.lost', role: 'control', error: toError(error) })
        await pause(backoff.next(), this.#stopping.signal)
      }
    }
  }
}
