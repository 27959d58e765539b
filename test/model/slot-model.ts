import type { Model, Move } from './checker.ts'

/** Claims of one slot, with one key in it, beside enqueues, each in a transaction with a number of the server's. */
export interface SlotVariant {
  readonly writers: number
  /** The process of each batch that may be in flight: those of one process share its floor. */
  readonly batches: readonly number[]
  /** Those that lease what they take: the slot is locked only while they claim. */
  readonly leased?: readonly number[]
  readonly retries?: number
  readonly rollbacks?: number
  readonly twin?: SlotTwin
}

export const SLOT_TWINS = [
  'the floor goes up at the first look',
  'the floor does not wait for older transactions',
  'the floor waits for those below the last that ended',
  'an id is drawn before the transaction has its number',
  'the slot is not locked',
  'holds are read by the snapshot',
  'a lease closes the key for later messages alone',
] as const
export type SlotTwin = (typeof SLOT_TWINS)[number]

/** An enqueue; see table/enqueue/insert.ts for the order of number and id. Zero: it has none yet. */
interface Writer {
  xid: number
  id: number
  at: 'running' | 'committed' | 'rolled back' | 'handled'
}

/** table/claim/claim-ordered.ts, and FlooredClaims.#claimSlots */
interface Batch {
  at: 'idle' | 'looked' | 'locked' | 'in hand'
  /** Of its snapshot: which messages it saw, with and without the floor, and the oldest transaction that ran. */
  saw: number[]
  live: number[]
  xmin: number
  /** What SlotFloor.observed is told as its number: its own, drawn after the snapshot. */
  xid: number
  /** The number of its own transaction, as long as it runs. */
  ownXid: number
  /** For one of the twins. */
  hold: boolean
  row: number
}

/** SlotFloor of claim/floors.ts */
interface Floor {
  id: number
  candidate: { readonly id: number; readonly xid: number } | null
}

export interface SlotState {
  readonly writers: Writer[]
  readonly batches: Batch[]
  readonly floors: Floor[]
  nextXid: number
  nextId: number
  /** The highest number of a transaction that has ended. */
  lastEnded: number
  /** The key waits for this message; zero: for none. */
  hold: number
  /** The message that is or was leased, and has closed the key; zero: none. */
  closer: number
  retries: number
  rollbacks: number
  /** What happened that must not. */
  wrong: string
}

type SlotMove = Move<SlotState>

export function slotModel(variant: SlotVariant): Model<SlotState> {
  return {
    initial: {
      writers: Array.from({ length: variant.writers }, () => ({ xid: 0, id: 0, at: 'running' }) as const),
      batches: variant.batches.map(newBatch),
      floors: [...new Set(variant.batches)].map(() => ({ id: 0, candidate: null })),
      nextXid: 1,
      nextId: 1,
      lastEnded: 0,
      hold: 0,
      closer: 0,
      retries: variant.retries ?? 0,
      rollbacks: variant.rollbacks ?? 0,
      wrong: '',
    },
    moves: (state) => [
      ...state.writers.flatMap((writer, at) => writerMoves(variant, writer, at)),
      ...state.batches.flatMap((batch, at) => new BatchMoves(variant, state, batch, at).all()),
      ...(state.hold === 0
        ? []
        : [
            {
              name: 'the retry falls due',
              apply: (next: SlotState) => {
                next.hold = 0
              },
            },
          ]),
    ],
    wrong: (state) => state.wrong || hidden(state),
    done: ({ writers }) =>
      writers.every(({ at, id, xid }) => at === 'handled' || at === 'rolled back' || (id === 0 && xid === 0)),
    key: keyOf,
  }
}

function newBatch(): Batch {
  return { at: 'idle', saw: [], live: [], xmin: 0, xid: 0, ownXid: 0, hold: false, row: 0 }
}

/** Numbers of transactions only count by their order. */
function keyOf(state: SlotState): string {
  const numbers = new Set<number>([state.nextXid, state.lastEnded])
  for (const { xid } of state.writers) numbers.add(xid)
  for (const { xmin, xid, ownXid } of state.batches) for (const one of [xmin, xid, ownXid]) numbers.add(one)
  for (const { candidate } of state.floors) numbers.add(candidate?.xid ?? 0)
  numbers.add(0)
  const ranks = new Map([...numbers].toSorted((a, b) => a - b).map((number, rank) => [number, rank]))
  return JSON.stringify([
    state.writers.map(({ xid, id, at }) => [ranks.get(xid), id, at]).toSorted(),
    state.batches.map((batch) => ({
      ...batch,
      xmin: ranks.get(batch.xmin),
      xid: ranks.get(batch.xid),
      ownXid: ranks.get(batch.ownXid),
    })),
    state.floors.map(({ id, candidate }) => [id, candidate?.id, ranks.get(candidate?.xid ?? 0)]),
    [ranks.get(state.nextXid), ranks.get(state.lastEnded), state.nextId, state.hold, state.closer],
    [state.retries, state.rollbacks, state.wrong],
  ])
}

/** A floor above a row that is there or may still come. */
function hidden({ writers, floors }: SlotState): string | undefined {
  const below = writers.find(
    ({ id, at }) => id > 0 && (at === 'running' || at === 'committed') && floors.some((floor) => floor.id > id),
  )
  return below && `a floor hides ${below.id}`
}

function runningXids({ writers, batches }: SlotState): readonly number[] {
  const writing = writers.filter(({ at }) => at === 'running').map(({ xid }) => xid)
  return [...writing, ...batches.map(({ ownXid }) => ownXid)].filter((xid) => xid > 0)
}

function writerMoves({ twin }: SlotVariant, { xid, id, at }: Writer, number: number): readonly SlotMove[] {
  const move = (name: string, apply: (writer: Writer, next: SlotState) => void): SlotMove => ({
    name: `enqueue ${number} ${name}`,
    apply: (next) => apply(next.writers[number]!, next),
  })
  if (at !== 'running') return []
  const getsNumber = move('gets its number', (writer, next) => {
    writer.xid = next.nextXid++
  })
  const drawsId = move('draws its id', (writer, next) => {
    writer.id = next.nextId++
  })
  const idFirst = twin === 'an id is drawn before the transaction has its number'
  const [first, second] = idFirst ? [drawsId, getsNumber] : [getsNumber, drawsId]
  if (xid === 0 && id === 0) return [{ ...first, optional: true }]
  if (xid === 0 || id === 0) return [second]
  const ends = (how: 'committed' | 'rolled back') => (writer: Writer, next: SlotState) => {
    writer.at = how
    next.lastEnded = Math.max(next.lastEnded, writer.xid)
  }
  return [move(`commits ${id}`, ends('committed')), move('rolls back', ends('rolled back'))]
}

class BatchMoves {
  readonly #variant: SlotVariant
  readonly #state: SlotState
  readonly #batch: Batch
  readonly #at: number
  readonly #process: number

  constructor(variant: SlotVariant, state: SlotState, batch: Batch, at: number) {
    this.#variant = variant
    this.#state = state
    this.#batch = batch
    this.#at = at
    this.#process = variant.batches[at]!
  }

  all(): readonly SlotMove[] {
    const { batches, retries, rollbacks, hold } = this.#state
    switch (this.#batch.at) {
      case 'idle':
        return [this.#move('looks', (batch, next) => this.#look(batch, next))]
      case 'looked':
        return [this.#move('locks', (batch, next) => this.#lock(batch, next, batches))]
      case 'locked':
        return [this.#move('has its answer', (batch, next) => this.#answer(batch, next))]
      case 'in hand': {
        const moves = [this.#move('commits', (batch, next) => this.#end(batch, next, 'handled'))]
        const { row } = this.#batch
        if (rollbacks > 0)
          moves.push({ ...this.#move('rolls back', (...args) => this.#rollBack(...args)), optional: true })
        // Of a leased one the row says when, and no slot.
        if (retries > 0 && hold === 0 && !this.#isLeased) {
          const triesAgain = this.#move(`is to try ${row} again`, (...args) => this.#retry(...args))
          moves.push({ ...triesAgain, optional: true })
        }
        return moves
      }
    }
  }

  #move(name: string, apply: (batch: Batch, next: SlotState) => void): SlotMove {
    return {
      name: `process ${this.#process}, batch ${this.#at} ${name}`,
      apply: (next) => apply(next.batches[this.#at]!, next),
    }
  }

  /** The statement's snapshot. */
  #look(batch: Batch, next: SlotState): void {
    const live = next.writers
      .filter(({ at }) => at === 'committed')
      .map(({ id }) => id)
      .toSorted((a, b) => a - b)
    const floor = next.floors[this.#process]!.id
    const late = this.#variant.twin === 'the floor waits for those below the last that ended'
    Object.assign(batch, {
      at: 'looked',
      live,
      saw: live.filter((id) => id >= floor),
      xmin: Math.min(next.nextXid, ...runningXids(next)),
      xid: late ? next.lastEnded + 1 : 0,
      hold: next.hold > 0,
    })
    if (batch.saw.length === 0) Object.assign(batch, newBatch())
  }

  /** The slot's row, with its holds; then the message's, in its newest version; then the claim's own number. */
  #lock(batch: Batch, next: SlotState, batches: readonly Batch[]): void {
    const { twin } = this.#variant
    const isTaken = (id: number) => batches.some((other) => other.row === id)
    // A lease that is committed keeps no transaction, and so no slot.
    const slotTaken = twin !== 'the slot is not locked' && batches.some((other) => other.ownXid > 0)
    const held = twin === 'holds are read by the snapshot' ? batch.hold : next.hold > 0
    const isThere = (id: number) => next.writers.some((writer) => writer.id === id && writer.at === 'committed')
    const isOpen = (id: number) =>
      twin === 'a lease closes the key for later messages alone'
        ? id <= (next.closer || id)
        : id === (next.closer || id)
    // A message that is to be tried later is not due, whoever asks.
    const mayTake = (id: number) => isThere(id) && !isTaken(id) && id !== next.hold && isOpen(id)
    const row = slotTaken || held ? undefined : batch.saw.find(mayTake)
    if (row === undefined) {
      Object.assign(batch, newBatch())
      return
    }
    const beside = batches.find((other) => other.row > 0)
    if (beside !== undefined) next.wrong = `${row} is taken beside ${beside.row}`
    const earlier = row === next.closer ? undefined : batch.live.find((id) => id < row && isThere(id))
    if (earlier !== undefined) next.wrong = `${row} is taken before ${earlier}`
    const ownXid = next.nextXid++
    Object.assign(batch, { at: 'locked', row, ownXid, xid: batch.xid || ownXid })
  }

  /** SlotFloor.observed; answers of several batches come in any order. */
  #answer(batch: Batch, next: SlotState): void {
    const floor = next.floors[this.#process]!
    const { twin } = this.#variant
    const seen = { id: batch.saw[0]!, xid: batch.xid }
    if (twin === 'the floor goes up at the first look') floor.id = seen.id
    else if (floor.candidate === null) floor.candidate = seen
    else if (batch.xmin > floor.candidate.xid || twin === 'the floor does not wait for older transactions') {
      floor.id = Math.min(seen.id, floor.candidate.id)
      floor.candidate = seen
    }
    Object.assign(batch, { ...newBatch(), at: 'in hand', row: batch.row, ownXid: batch.ownXid })
    if (this.#isLeased) this.#commitLease(batch, next)
  }

  get #isLeased(): boolean {
    return this.#variant.leased?.includes(this.#at) === true
  }

  /** From here on the row keeps the message. The COMMIT is sent with the claim. */
  #commitLease(batch: Batch, next: SlotState): void {
    next.closer = batch.row
    next.lastEnded = Math.max(next.lastEnded, batch.ownXid)
    batch.ownXid = 0
  }

  #end(batch: Batch, next: SlotState, how: 'handled' | 'committed'): void {
    next.writers.find(({ id }) => id === batch.row)!.at = how
    if (how === 'handled' && next.closer === batch.row) next.closer = 0
    next.lastEnded = Math.max(next.lastEnded, batch.ownXid)
    Object.assign(batch, newBatch())
  }

  #rollBack(batch: Batch, next: SlotState): void {
    next.rollbacks -= 1
    this.#end(batch, next, 'committed')
  }

  /** postponeRows of table/settle/settle.ts, and holdKeys of table/settle/around.ts */
  #retry(batch: Batch, next: SlotState): void {
    next.retries -= 1
    next.hold = batch.row
    this.#end(batch, next, 'committed')
  }
}
