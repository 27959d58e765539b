import { PassedRows } from '../../src/claim/passed-rows.ts'
import type { PassedStretch } from '../../src/table/claim/slot-walk.ts'
import type { Model, Move } from './checker.ts'

/** Claims of one slot with held keys, beside enqueues. What they pass over is remembered by the code itself. */
export interface PassedVariant {
  /** The keys of the messages that are there already, and of those that are enqueued meanwhile. */
  readonly there: readonly Key[]
  readonly writers: readonly Key[]
  /** The process of each batch that may be in flight: those of one process share what it remembers. */
  readonly batches: readonly number[]
  /** How many handled messages fail, and hold their key. */
  readonly retries?: number
  readonly twin?: PassedTwin
}

type Key = 'a' | 'b'

/** What a process forgets of a walk. */
export const PASSED_TWINS = ['which transactions ran', 'when holds end', 'which keys it met'] as const
export type PassedTwin = (typeof PASSED_TWINS)[number]

/** One claim reads so many rows at most, and one process remembers so many walks before it forgets all. */
const MOST_WALKED = 3
const MOST_WALKS = 2

/** At the beginning key a is held until then; a retry falls due at one of the ticks left. Then time stands still. */
const LAST_TICK = 2
const FAR = Number.MAX_SAFE_INTEGER

interface Writer {
  readonly key: Key
  xid: number
  id: number
  at: 'running' | 'committed' | 'rolled back' | 'handled'
}

interface Walk {
  readonly firstLive: number
  readonly start: number
  readonly last: number
  readonly held: readonly (readonly [Key, number])[]
  readonly xid: number
  readonly running: readonly number[]
}

/** CLAIM_SLOTS of table/claim/claim-slots.ts */
interface Batch {
  at: 'idle' | 'looked' | 'locked' | 'in hand'
  /** Of its snapshot: the rows, what had ended, and the clock. */
  live: number[]
  running: number[]
  lastEnded: number
  now: number
  /** Where a claim begins for its parameters. */
  start: number
  ownXid: number
  row: number
  walk: Walk | null
}

export interface PassedState {
  readonly writers: Writer[]
  readonly batches: Batch[]
  /** Of each process, what it has been told: {@link PassedRows} remembers it. */
  readonly walks: Walk[][]
  readonly heldUntil: Record<Key, number>
  now: number
  nextXid: number
  nextId: number
  /** The highest number of a transaction that has ended. */
  lastEnded: number
  retries: number
  wrong: string
}

type PassedMove = Move<PassedState>

export function passedModel(variant: PassedVariant): Model<PassedState> {
  const { there, writers, batches, retries = 0 } = variant
  return {
    initial: {
      writers: [
        ...there.map((key, at) => ({ key, xid: 0, id: at + 1, at: 'committed' }) as const),
        ...writers.map((key) => ({ key, xid: 0, id: 0, at: 'running' }) as const),
      ],
      batches: batches.map(newBatch),
      walks: [...new Set(batches)].map(() => []),
      heldUntil: { a: LAST_TICK, b: 0 },
      now: 0,
      nextXid: 1,
      nextId: there.length + 1,
      lastEnded: 0,
      retries,
      wrong: '',
    },
    moves: (state) => [
      ...state.writers.flatMap(writerMoves),
      ...state.batches.flatMap((batch, at) => batchMoves(variant, state, batch, at)),
      ...(state.now < LAST_TICK ? [TICK] : []),
    ],
    wrong: ({ wrong }) => wrong || undefined,
    done: ({ writers: all }) =>
      all.every(({ at, id, xid }) => at === 'handled' || at === 'rolled back' || (id === 0 && xid === 0)),
    key: keyOf,
  }
}

/** Numbers of transactions only count by their order, and those that a claim may still put into its answer. */
function keyOf(state: PassedState): string {
  const { writers, batches, walks, nextXid, lastEnded, ...rest } = state
  const numbers = new Set<number>([0, nextXid, lastEnded])
  for (const { xid } of writers) numbers.add(xid)
  for (const { running, lastEnded: ended, ownXid, walk, at } of batches) {
    for (const xid of [...running, ended, ownXid, ...numbersOf(walk)]) numbers.add(xid)
    if (at === 'looked') for (let xid = ended + 1; xid < nextXid; xid += 1) numbers.add(xid)
  }
  for (const walk of walks.flat()) for (const xid of numbersOf(walk)) numbers.add(xid)
  const ranks = new Map([...numbers].toSorted((a, b) => a - b).map((number, place) => [number, place]))
  const rank = (xid: number) => ranks.get(xid) ?? -1
  const ofWalk = (walk: Walk) => ({ ...walk, xid: rank(walk.xid), running: walk.running.map(rank) })
  return JSON.stringify([
    writers.map((writer) => ({ ...writer, xid: rank(writer.xid) })),
    batches.map((batch) => ({
      ...batch,
      running: batch.running.map(rank),
      lastEnded: rank(batch.lastEnded),
      ownXid: rank(batch.ownXid),
      walk: batch.walk && ofWalk(batch.walk),
    })),
    walks.map((all) => all.map(ofWalk)),
    [rank(nextXid), rank(lastEnded), rest],
  ])
}

function numbersOf(walk: Walk | null): readonly number[] {
  return walk === null ? [] : [walk.xid, ...walk.running]
}

const TICK: PassedMove = {
  name: 'time goes on',
  apply: (next) => {
    next.now += 1
  },
}

function newBatch(): Batch {
  return { at: 'idle', live: [], running: [], lastEnded: 0, now: 0, start: 0, ownXid: 0, row: 0, walk: null }
}

function writerMoves({ xid, id, at }: Writer, number: number): readonly PassedMove[] {
  const move = (name: string, apply: (writer: Writer, next: PassedState) => void): PassedMove => ({
    name: `enqueue ${number} ${name}`,
    apply: (next) => apply(next.writers[number]!, next),
  })
  if (at !== 'running') return []
  const begins = move('gets its number and draws its id', (writer, next) => {
    writer.xid = next.nextXid++
    writer.id = next.nextId++
  })
  if (xid === 0) return [{ ...begins, optional: true }]
  const ends = (how: 'committed' | 'rolled back') => (writer: Writer, next: PassedState) => {
    writer.at = how
    next.lastEnded = Math.max(next.lastEnded, writer.xid)
  }
  return [move(`commits ${id}`, ends('committed')), { ...move('rolls back', ends('rolled back')), optional: true }]
}

function batchMoves(variant: PassedVariant, state: PassedState, batch: Batch, at: number): readonly PassedMove[] {
  const process = variant.batches[at]!
  const move = (name: string, apply: (batch: Batch, next: PassedState) => void): PassedMove => ({
    name: `process ${process}, batch ${at} ${name}`,
    apply: (next) => apply(next.batches[at]!, next),
  })
  switch (batch.at) {
    case 'idle':
      return [move('looks', (own, next) => look(own, next, process))]
    case 'looked':
      return [move('locks', (own, next) => lock(own, next))]
    case 'locked':
      return [move('has its answer', (own, next) => answer(own, next, process, variant.twin))]
    case 'in hand': {
      const commits = move(`commits ${batch.row}`, (own, next) => end(own, next, 'handled'))
      const fails = (untilTick: number) =>
        move(`is to try ${batch.row} again at ${untilTick}`, (own, next) => fail(own, next, untilTick))
      const ticks = state.retries > 0 ? Array.from({ length: LAST_TICK - state.now }, (_, n) => state.now + 1 + n) : []
      return [commits, ...ticks.map((tick) => ({ ...fails(tick), optional: true }))]
    }
  }
}

/** The statement's snapshot and clock, and its parameters: the stretches, of which it finds out what still holds. */
function look(batch: Batch, next: PassedState, process: number): void {
  const live = next.writers.filter(({ at }) => at === 'committed').map(({ id }) => id)
  live.sort((a, b) => a - b)
  const [first] = live
  if (first === undefined) return
  const start = startBehind(first, stretchesOf(next.walks[process]!), next)
  const { lastEnded, now } = next
  Object.assign(batch, { at: 'looked', live, running: runningXids(next), lastEnded, now, start })
}

function startBehind(firstLive: number, stretches: readonly PassedStretch[], state: PassedState): number {
  const running = runningXids(state)
  const ended = (xid: bigint) => Number(xid) <= state.lastEnded && !running.includes(Number(xid))
  const holds = ({ untilUs, running: ran }: PassedStretch) => untilUs > state.now && !ran.some(ended)
  const known = stretches.filter(({ lastId }) => Number(lastId) >= firstLive)
  const broken = Math.min(...known.filter((stretch) => !holds(stretch)).map(({ lastId }) => Number(lastId)))
  const passed = known.filter(({ firstId, lastId }) => Number(firstId) <= firstLive && Number(lastId) < broken)
  return Math.max(firstLive, ...passed.map(({ lastId }) => Number(lastId)))
}

/** What the code remembers of these walks. */
function stretchesOf(walks: readonly Walk[]): readonly PassedStretch[] {
  const passed = new PassedRows(0)
  for (const { firstLive, start, last, held, xid, running } of walks) {
    passed.walked(
      {
        slot: 0,
        firstLive: String(firstLive),
        start: String(start),
        last: String(last),
        partial: false,
        heldUntilUs: new Map(held),
        dueUs: FAR,
      },
      { xmin: 0n, xid: BigInt(xid), running: new Set(running.map(BigInt)) },
    )
  }
  return passed.stretches
}

/** The slot's row, with its holds in the newest version; then the walk, and the first row that it may take. */
function lock(batch: Batch, next: PassedState): void {
  const isLocked = next.batches.some(({ at }) => at === 'locked' || at === 'in hand')
  if (isLocked) {
    Object.assign(batch, newBatch())
    return
  }
  const rowOf = (id: number) => next.writers.find((writer) => writer.id === id)!
  const isFree = (id: number) => next.heldUntil[rowOf(id).key] <= batch.now
  const isThere = (id: number) => rowOf(id).at === 'committed'
  const anyHeld = Object.values(next.heldUntil).some((until) => until > batch.now)
  const start = anyHeld ? batch.start : batch.live[0]!
  const passedOver = batch.live.find((id) => id < start && isFree(id) && isThere(id))
  if (passedOver !== undefined) next.wrong = `${passedOver} is passed over`
  const ahead = batch.live.filter((id) => id >= start).slice(0, MOST_WALKED)
  const pick = ahead.find(isFree)
  const walked = ahead.filter((id) => id < (pick ?? FAR))
  const xid = next.nextXid++
  // The newest version of the row: another batch may have handled it since the snapshot.
  const row = pick !== undefined && isThere(pick) ? pick : 0
  const earlier = batch.live.find((id) => id < row && isThere(id) && rowOf(id).key === rowOf(row).key)
  if (row > 0 && earlier !== undefined) next.wrong = `${row} is taken before ${earlier}`
  const since = Array.from({ length: xid - batch.lastEnded - 1 }, (_, n) => batch.lastEnded + 1 + n)
  const keys = new Set(walked.map((id) => rowOf(id).key))
  const walk = walked.length > 0 && {
    firstLive: batch.live[0],
    start,
    last: walked.at(-1),
    held: [...keys].map((key) => [key, next.heldUntil[key]]),
    xid,
    running: [...new Set([...batch.running, ...since])],
  }
  Object.assign(batch, { ...newBatch(), at: 'locked', row, ownXid: xid, walk: walk || null })
}

/** Answers of several batches come in any order. A batch without a row ends. */
function answer(batch: Batch, next: PassedState, process: number, twin: PassedTwin | undefined): void {
  const { walk, row, ownXid } = batch
  const known = next.walks[process]!
  if (walk !== null) {
    if (known.length === MOST_WALKS) known.length = 0
    known.push(twin === undefined ? walk : FORGETTING[twin](walk))
  }
  if (row === 0) end(batch, next, undefined)
  else Object.assign(batch, { ...newBatch(), at: 'in hand', row, ownXid })
}

const FORGETTING: Record<PassedTwin, (walk: Walk) => Walk> = {
  'which transactions ran': (walk) => ({ ...walk, running: [] }),
  'when holds end': (walk) => ({ ...walk, held: walk.held.map(([key]) => [key, FAR]) }),
  'which keys it met': (walk) => ({ ...walk, held: walk.held.slice(0, 1) }),
}

function end(batch: Batch, next: PassedState, how: 'handled' | undefined): void {
  const row = next.writers.find(({ id }) => id === batch.row && id > 0)
  if (row !== undefined && how !== undefined) row.at = how
  next.lastEnded = Math.max(next.lastEnded, batch.ownXid)
  Object.assign(batch, newBatch())
}

function fail(batch: Batch, next: PassedState, untilTick: number): void {
  next.retries -= 1
  next.heldUntil[next.writers.find(({ id }) => id === batch.row)!.key] = untilTick
  end(batch, next, undefined)
}

function runningXids({ writers, batches }: PassedState): number[] {
  const writing = writers.filter(({ at }) => at === 'running').map(({ xid }) => xid)
  return [...writing, ...batches.map(({ ownXid }) => ownXid)].filter((xid) => xid > 0)
}
