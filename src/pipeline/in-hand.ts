import type { Control } from '../connection/control.ts'
import { type BatchRecord, type CrashCount, recordBatches, recordHung } from '../table/worker.ts'
import { Isolation } from './isolation.ts'

/** The evidence against the messages of a batch, by id. Most are not in it. */
export type Crashes = ReadonlyMap<string, CrashCount>

const NONE: Crashes = new Map()

/**
 * Keeps the database's record of what this process has in hand. A batch is recorded before its first handler runs:
 * the transaction of a process that dies leaves no trace, so something outside it must tell which messages it held.
 * Batches that begin or end while a write is under way share the next one, so the cost is at most one small
 * statement per batch, without WAL and without waiting for the disk.
 */
export class InHand {
  /** Who may have something in hand at the same time. */
  readonly isolation = new Isolation()
  readonly #control: Pick<Control, 'execute'>
  readonly #workerId: () => number
  readonly #beforeRecord: () => Promise<void>
  readonly #active = new Map<number, BatchRecord>()
  #begun: {
    readonly record: BatchRecord
    readonly resolve: (crashes: Crashes) => void
    readonly reject: (error: unknown) => void
  }[] = []
  #ended: number[] = []
  #writing: Promise<void> | undefined
  #tidy: NodeJS.Timeout | undefined
  #nextId = 1

  /** `beforeRecord` runs before evidence is read: the moment to look whether a worker has died. */
  constructor(control: Pick<Control, 'execute' | 'onUp'>, workerId: () => number, beforeRecord: () => Promise<void>) {
    this.#control = control
    this.#workerId = workerId
    this.#beforeRecord = beforeRecord
    // A reaper may have taken our records for those of a dead worker while the connection was down.
    control.onUp(async (execute) => {
      this.#ended = []
      await recordBatches(execute, this.#workerId(), [], [...this.#active.values()])
    })
  }

  /** Records a batch and returns its number and the evidence. @throws SluiceError UNREACHABLE */
  async begin(
    queue: string,
    messages: readonly { readonly id: string; readonly attempt: number }[],
  ): Promise<BegunBatch> {
    const record: BatchRecord = {
      id: this.#nextId++,
      queue,
      messageIds: messages.map((message) => message.id),
      attempts: messages.map((message) => message.attempt),
    }
    this.#active.set(record.id, record)
    const crashes = await new Promise<Crashes>((resolve, reject) => {
      this.#begun.push({ record, resolve, reject })
      this.#write()
    })
    return { id: record.id, crashes }
  }

  /** Writes evidence against messages of a batch in hand: their handler hung until the server ended the transaction. */
  async hung(id: number, queue: string, messageIds: readonly string[]): Promise<void> {
    // The handlers of one batch run one after another; those of another batch may have held the process as well.
    const alone = this.#active.size === 1 && messageIds.length === 1
    await recordHung(this.#control.execute, this.#workerId(), id, queue, messageIds, alone)
  }

  /** The batch is settled or given back. Written with the next batch, or soon. */
  end(id: number): void {
    if (!this.#active.delete(id)) return
    this.#ended.push(id)
    this.#tidy ??= setTimeout(() => this.#write(), TIDY_MS)
  }

  /** Writes what is left. */
  async stop(): Promise<void> {
    this.#write()
    await this.#writing
  }

  #write(): void {
    clearTimeout(this.#tidy)
    this.#tidy = undefined
    if (this.#writing !== undefined || (this.#begun.length === 0 && this.#ended.length === 0)) return
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined
    })
  }

  async #writeAll(): Promise<void> {
    while (this.#begun.length > 0 || this.#ended.length > 0) {
      const begun = this.#begun
      const ended = this.#ended
      this.#begun = []
      this.#ended = []
      try {
        if (begun.length > 0) await this.#beforeRecord()
        const found = await recordBatches(
          this.#control.execute,
          this.#workerId(),
          ended,
          begun.map(({ record }) => record),
        )
        for (const { record, resolve } of begun) resolve(evidenceFor(record, found))
      } catch (error) {
        for (const { record, reject } of begun) {
          this.#active.delete(record.id)
          reject(error)
        }
        // Usually lost with the connection, and then the worker registers anew with its active batches only.
        this.#ended.push(...ended)
        if (this.#begun.length === 0) return
      }
    }
  }
}

export interface BegunBatch {
  readonly id: number
  readonly crashes: Crashes
}

/** An ended batch stands in `sluice.in_flight` for this long at most if no other begins. */
const TIDY_MS = 20

function evidenceFor(record: BatchRecord, found: readonly CrashCount[]): Crashes {
  if (found.length === 0) return NONE
  const ids = new Set(record.messageIds)
  return new Map(
    found
      .filter((count) => count.queue === record.queue && ids.has(count.messageId))
      .map((count) => [count.messageId, count]),
  )
}
