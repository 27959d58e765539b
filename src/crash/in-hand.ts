import { startTimer } from '../basics/time/start-timer.ts'
import type { Control } from '../connection/control.ts'
import { type Evidence, readEvidence, recordEvidence } from '../table/worker/evidence.ts'
import { freeBatches } from '../table/worker/reap.ts'
import { type BatchRecord, recordBatches } from '../table/worker/worker.ts'
import { Abandoned } from './abandoned.ts'
import { AloneLock } from './alone-lock.ts'

/** The evidence about the messages of a batch, by id. Most are not in it. */
export type EvidenceById = ReadonlyMap<string, Evidence>

const NONE: EvidenceById = new Map()

/**
 * Keeps the database's record of the batches that this process has in flight. The record of a batch is sent before its
 * first handler runs: the transaction of a process that dies leaves no trace, so a record outside it must name its
 * messages. Batches that begin or end while a write is under way share the next one, so the cost is at most one small
 * statement per batch, without WAL and without waiting for the disk.
 *
 * Nothing waits for the answer either, unless it has something to tell: data in the socket reaches the server even if
 * the process dies with the next instruction.
 */
export class InHand {
  /** Every round has it while it runs: shared, or alone. */
  readonly aloneLock = new AloneLock()
  readonly #control: ControlOfRecords
  readonly #workerId: () => number
  readonly #findDead: () => Promise<boolean>
  readonly #active = new Map<number, BatchRecord>()
  readonly #abandoned: Abandoned
  /** The numbers of claims on their way. */
  readonly #reserved = new Set<number>()
  /** What goes into the next write. */
  #begun: RecordsToWrite | undefined
  #ended: number[] = []
  #writing: Promise<void> | undefined
  /** The last write failed: the next batch waits for its own, so that a lasting error is seen. */
  #doubtful = false
  #tidy: NodeJS.Timeout | undefined
  #stopped = false
  #nextId = 1

  /**
   * @param findDead runs before a batch is recorded, and resolves with whether there may be evidence that its claim
   * has not seen.
   */
  constructor(
    control: ControlOfRecords & Pick<Control, 'onUp'>,
    workerId: () => number,
    findDead: () => Promise<boolean>,
  ) {
    this.#control = control
    this.#workerId = workerId
    this.#findDead = findDead
    this.#abandoned = new Abandoned(async (ids) => {
      control.requireUp()
      return freeBatches(control.execute, this.#workerId(), ids)
    })
    // A reaper may have taken our records for those of a dead worker while the connection was down.
    control.onUp(async (execute) => {
      this.#ended = []
      const active = [...this.#active.values()]
      if (active.length > 0) await recordBatches(execute, this.#workerId(), [], active)
      this.#abandoned.retry()
    })
  }

  /** The number under which this process is registered. */
  get workerId(): number {
    return this.#workerId()
  }

  /**
   * Records a batch and returns its number and the evidence.
   *
   * @param suspect there is evidence about messages of this queue: read it, and wait until the record is written.
   * @throws SluiceError UNREACHABLE
   */
  async begin(
    queue: string,
    messages: readonly { readonly id: string; readonly attempt: number }[],
    suspect: boolean,
  ): Promise<BegunBatch> {
    // A pooler that is out of sessions would make the batch, which has one, wait for its own end.
    const { shared = false } = this.#control
    const mustBeWritten = (await this.#findDead()) || suspect || (this.#doubtful && !shared)
    const messageIds = messages.map((message) => message.id)
    const record = { id: this.#nextId++, queue, messageIds, attempts: messages.map((message) => message.attempt) }
    this.#active.set(record.id, record)
    try {
      const { sent, written } = this.#record(record)
      if (mustBeWritten || !shared) await (mustBeWritten ? written : sent)
      return { id: record.id, evidence: mustBeWritten ? await this.#evidence(record) : NONE }
    } catch (error) {
      // The record may be in the table even if its write failed here: a death would count for its messages.
      this.end(record.id)
      throw error
    }
  }

  /** The batches in flight, and those of claims on their way: their records stay in the database. */
  get kept(): readonly number[] {
    return [...this.#active.keys(), ...this.#reserved]
  }

  /** A number for a batch that its own claim will record, kept until {@link unreserve}. */
  reserve(): number {
    const id = this.#nextId++
    this.#reserved.add(id)
    return id
  }

  /** The claim is over: its batch is in flight or abandoned, or there is none. */
  unreserve(id: number): void {
    this.#reserved.delete(id)
  }

  /** A batch of leased messages, which its own claim has recorded. Resolves with the evidence against its messages. */
  async recorded(record: BatchRecord, suspect: boolean): Promise<EvidenceById> {
    this.#active.set(record.id, record)
    this.#reserved.delete(record.id)
    return suspect ? this.#evidence(record) : NONE
  }

  /**
   * No process has these batches, which their own claims may have recorded: their leases end as soon as they exist.
   *
   * @param isOver the server has answered every statement
   */
  abandon(ids: readonly number[], isOver: boolean): void {
    this.#abandoned.add(ids, isOver)
  }

  /** A claim is being sent: finds dead workers meanwhile, so that {@link begin} need not wait for it. */
  findDeadAhead(): void {
    this.#findDead().catch(() => undefined)
  }

  /** Writes evidence about messages of a batch in flight: their handler hung until the server ended the transaction. */
  async hung(id: number, queue: string, messageIds: readonly string[]): Promise<void> {
    // The handlers of one batch run one after another; those of another batch may have blocked the process as well.
    const alone = this.#active.size === 1 && messageIds.length === 1
    const left = { workerId: this.workerId, batchId: id, queue, messageIds, alone }
    await recordEvidence(this.#control.execute, 'hung', left)
  }

  /** The batch is settled or given back. Written with the next batch, or soon. */
  end(id: number): void {
    if (!this.#active.delete(id)) return
    this.#ended.push(id)
    this.#tidySoon()
  }

  /** Writes what is left. */
  async stop(): Promise<void> {
    await this.#writing
    this.#write()
    await Promise.all([this.#writing, this.#abandoned.stop()])
    this.#stopped = true
    clearTimeout(this.#tidy)
    this.#tidy = undefined
  }

  #tidySoon(): void {
    // The records are deleted with the worker's row.
    if (this.#stopped) return
    this.#tidy ??= startTimer(() => {
      this.#tidy = undefined
      this.#write()
    }, TIDY_MS)
  }

  async #evidence({ queue, messageIds }: BatchRecord): Promise<EvidenceById> {
    const found = await readEvidence(this.#control.execute, queue, messageIds)
    return new Map(found.map((evidence) => [evidence.messageId, evidence]))
  }

  #record(record: BatchRecord): { readonly sent: Promise<void>; readonly written: Promise<void> } {
    this.#begun ??= new RecordsToWrite()
    const { records, sent, written } = this.#begun
    records.push(record)
    this.#write()
    return { sent: sent.promise, written: written.promise }
  }

  #write(): void {
    if (this.#writing !== undefined || (this.#begun === undefined && this.#ended.length === 0)) return
    clearTimeout(this.#tidy)
    this.#tidy = undefined
    this.#writing = this.#writeAll().finally(() => {
      this.#writing = undefined
      // A batch may have begun since the last write was answered.
      if (this.#begun !== undefined) this.#write()
      else if (this.#ended.length > 0) this.#tidySoon()
    })
  }

  async #writeAll(): Promise<void> {
    do {
      const begun = this.#begun ?? new RecordsToWrite()
      const ended = this.#ended
      this.#begun = undefined
      this.#ended = []
      let unwritten: readonly number[] = []
      try {
        this.#control.requireUp()
        unwritten = ended
        // A batch that has ended already needs no record: nothing would delete it.
        const records = begun.records.filter(({ id }) => this.#active.has(id))
        const answer = recordBatches(this.#control.execute, this.workerId, ended, records)
        begun.sent.resolve()
        await answer
        this.#doubtful = false
        begun.written.resolve()
      } catch (error) {
        this.#doubtful = true
        begun.fail(error)
        // Without a connection nothing is tried again: on the next one the worker registers with its active batches only.
        this.#ended.push(...unwritten)
      }
    } while (this.#begun !== undefined)
  }
}

type ControlOfRecords = Pick<Control, 'execute' | 'requireUp'> & Partial<Pick<Control, 'shared'>>

export interface BegunBatch {
  readonly id: number
  readonly evidence: EvidenceById
}

/** The batches that begin with one write. */
class RecordsToWrite {
  readonly records: BatchRecord[] = []
  readonly sent = Promise.withResolvers<void>()
  readonly written = Promise.withResolvers<void>()

  constructor() {
    // Each batch waits for one of the two.
    for (const { promise } of [this.sent, this.written]) promise.catch(() => undefined)
  }

  fail(error: unknown): void {
    this.sent.reject(error)
    this.written.reject(error)
  }
}

/** An ended batch is in `sluice.in_flight` for this long at most if no other begins. */
const TIDY_MS = 20
