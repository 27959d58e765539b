import type { Control } from '../connection/control.ts'
import { worksSince } from '../table/worker.ts'
import type { BatchConnection } from './batch-connection.ts'

/**
 * Ends a connection whose answers stay away. Half-open, it would hold its slot until the operating system gives up
 * resending, a quarter of an hour later. The server's own limit for a transaction comes first, and ends what has only
 * lost this process. A COMMIT that waits for a standby is under no limit there, and to leave it would take a connection
 * more each time, so the server is asked. One timer for all transactions of a connection.
 */
export class AnswerLimit {
  readonly #connection: BatchConnection
  readonly #control: Pick<Control, 'execute'>
  readonly #serverMs: number
  readonly #timer: NodeJS.Timeout
  /** The server's process, as the last claim saw it. */
  pid: number
  #turn = 0

  /** @param serverMs after which the server ends a transaction. */
  constructor(connection: BatchConnection, control: Pick<Control, 'execute'>, serverMs: number) {
    this.#connection = connection
    this.#control = control
    this.#serverMs = serverMs
    this.pid = Number(Reflect.get(connection.client, 'processID'))
    this.#timer = setTimeout(() => void this.#late(), serverMs + GRACE_MS)
  }

  /** The next transaction begins. */
  restart(): void {
    this.#turn += 1
    this.#timer.refresh()
  }

  stop(): void {
    this.#turn += 1
    clearTimeout(this.#timer)
  }

  async #late(): Promise<void> {
    const turn = this.#turn
    const works = await worksSince(this.#control.execute, this.pid, this.#serverMs).catch(() => false)
    // After a pause of the whole process the answers may have been there, unread.
    if (turn !== this.#turn) return
    if (works) this.#timer.refresh()
    else this.#connection.break(`No answer within ${this.#serverMs + GRACE_MS} ms`)
  }
}

/** The server's word that it has ended the transaction may be under way. */
const GRACE_MS = 2_000
