import type pg from 'pg'
import { startTimer } from '../basics/time/start-timer.ts'
import { bytesReadOf } from '../session/bytes-read.ts'
import { type ServerWork, workOf } from '../table/worker/server-process.ts'
import { closeClient, executeOn, openClient } from './open-client.ts'

/**
 * Ends a connection that has fallen silent, although its statements may take as long as they need: when nothing has
 * arrived for a while, another connection asks the server whether it works for this one. If it does not, or cannot be
 * asked, the connection is dead.
 */
export class SilenceWatch {
  readonly #client: pg.Client
  readonly #config: pg.ClientConfig
  readonly #everyMs: number
  #timer: NodeJS.Timeout | undefined
  #pid: number | undefined

  constructor(client: pg.Client, config: pg.ClientConfig, everyMs: number) {
    this.#client = client
    this.#config = config
    this.#everyMs = everyMs
    this.#arm()
  }

  /** Tells which server process serves it: behind a pooler the driver does not know. */
  servedBy(pid: number): void {
    this.#pid = pid
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #arm(): void {
    const heard = bytesReadOf(this.#client)
    this.#timer = startTimer(() => void this.#check(heard), this.#everyMs)
  }

  async #check(heard: unknown): Promise<void> {
    const hears = () => heard !== bytesReadOf(this.#client)
    const silent = !hears() && (await this.#work()) !== 'busy' && !hears()
    if (this.#timer === undefined) return
    if (!silent) return this.#arm()
    this.#client.connection.stream.destroy(new Error('The server has fallen silent'))
  }

  async #work(): Promise<ServerWork> {
    if (this.#pid === undefined) return 'none'
    try {
      const other = await openClient({ ...this.#config, query_timeout: this.#everyMs })
      try {
        return await workOf(executeOn(other), this.#pid, 0)
      } finally {
        void closeClient(other)
      }
    } catch {
      return 'none'
    }
  }
}
