import type { Model, Move } from './checker.ts'

/** What an append, or a look, does otherwise. Each must be refuted. */
export const STABLE_TWINS = [
  'reads the head after the locks',
  'locks after it has drawn',
  'reads the events with the snapshot of the look',
  'unlocks before its commit is visible',
  'keeps what a rolled back savepoint had locked',
] as const
export type StableTwin = (typeof STABLE_TWINS)[number]

/** How many append, and how many looks the reader makes. */
export interface StableVariant {
  readonly appends: number
  readonly looks: number
  /** The first append of each is rolled back to a savepoint, and it appends again. */
  readonly savepoints?: boolean
}

type Phase =
  | 'begin'
  | 'knows the head'
  | 'locked'
  | 'drawn'
  | 'inserted'
  | 'undone'
  | 'visible'
  | 'ended'
  | 'unlocked first'

interface Append {
  phase: Phase
  /** The head that it has read, and the floor that it has locked; undefined: none. */
  head: number | undefined
  floor: number | undefined
  /** What it remembers to have locked. */
  remembers: boolean
  position: number | undefined
  undone: boolean
}

interface Reader {
  phase: 'ready' | 'one' | 'two' | 'stableEnd'
  head: number
  floor: number | undefined
  stableEnd: number
  /** The events that its look could see, for the twin. */
  snapshot: readonly number[]
  progress: number
  looks: number
}

export interface StableState {
  /** The last position drawn. */
  sequence: number
  readonly committed: number[]
  readonly read: number[]
  readonly appends: readonly Append[]
  readonly reader: Reader
}

/**
 * One partition of a stream: transactions that append an event, in the steps that the server can be interrupted
 * between, and a reader that asks up to where the partition is stable, reads behind its progress up to there, and moves on.
 */
export function stableModel(
  { appends, looks, savepoints = false }: StableVariant,
  twin?: StableTwin,
): Model<StableState> {
  return {
    initial: {
      sequence: 0,
      committed: [],
      read: [],
      appends: Array.from({ length: appends }, () => ({
        phase: 'begin',
        head: undefined,
        floor: undefined,
        remembers: false,
        position: undefined,
        undone: !savepoints,
      })),
      reader: { phase: 'ready', head: 0, floor: undefined, stableEnd: 0, snapshot: [], progress: 0, looks },
    },
    moves: (state) => [
      ...state.appends.flatMap((append, at) => appendMoves(append, at, twin)),
      ...readerMoves(state.reader, twin),
    ],
    wrong: ({ committed, read, reader }) => {
      const lost = committed.find((position) => position <= reader.progress && !read.includes(position))
      if (lost !== undefined) return `${lost} has been passed`
      return read.some((position, at) => position <= (read[at - 1] ?? 0)) ? 'read out of order' : undefined
    },
    key: (state) => JSON.stringify({ ...state, appends: state.appends.map((append) => JSON.stringify(append)).sort() }),
    done: ({ appends: all, reader }) => reader.looks === 0 && all.every(({ phase }) => phase === 'ended'),
  }
}

type Step = Move<StableState>

function appendMoves(append: Append, at: number, twin: StableTwin | undefined): readonly Step[] {
  const step = (name: string, apply: (own: Append, state: StableState) => void, optional = false): Step => ({
    name: `${at} ${name}`,
    apply: (state) => apply(state.appends[at]!, state),
    optional,
  })
  const draw = step('draws', (own, state) => {
    state.sequence += 1
    own.position = state.sequence
    own.phase = 'drawn'
  })
  switch (append.phase) {
    case 'begin':
      if (append.remembers) return [draw]
      if (twin === 'locks after it has drawn') return [draw]
      return [step('reads the head', readHead)]
    case 'knows the head':
      return [step('locks', lock)]
    case 'locked':
      return append.position === undefined ? [draw] : [step('inserts', insert)]
    case 'drawn':
      if (append.floor !== undefined || append.remembers) return [step('inserts', insert)]
      return [step('reads the head', readHead)]
    case 'inserted':
      return append.undone ? endMoves(step, twin) : [step('rolls back to its savepoint', (own) => undo(own, twin))]
    case 'unlocked first':
      return [step('becomes visible', (own, state) => show(own, state, 'ended'))]
    case 'visible':
      return [step('unlocks', (own) => unlock(own, 'ended'))]
    default:
      return []
  }
}

function endMoves(
  step: (name: string, apply: (own: Append, state: StableState) => void, optional?: boolean) => Step,
  twin: StableTwin | undefined,
): readonly Step[] {
  const rollBack = step('rolls back', (own) => unlock(own, 'ended'), true)
  if (twin === 'unlocks before its commit is visible')
    return [step('unlocks', (own) => unlock(own, 'unlocked first')), rollBack]
  return [step('becomes visible', (own, state) => show(own, state, 'visible')), rollBack]
}

function readHead(own: Append, state: StableState): void {
  own.head = state.sequence
  own.phase = 'knows the head'
}

function lock(own: Append): void {
  own.floor = own.head
  own.remembers = true
  own.phase = 'locked'
}

function insert(own: Append): void {
  own.phase = 'inserted'
}

/** The lock goes, and what it remembers of it. */
function undo(own: Append, twin: StableTwin | undefined): void {
  own.floor = undefined
  own.position = undefined
  own.remembers = twin === 'keeps what a rolled back savepoint had locked'
  own.undone = true
  own.phase = 'begin'
}

function show(own: Append, state: StableState, phase: Phase): void {
  state.committed.push(own.position!)
  state.committed.sort((a, b) => a - b)
  own.phase = phase
}

function unlock(own: Append, phase: Phase): void {
  own.floor = undefined
  own.phase = phase
}

function readerMoves(reader: Reader, twin: StableTwin | undefined): readonly Step[] {
  const step = (name: string, apply: (own: Reader, state: StableState) => void): Step => ({
    name: `reader ${name}`,
    apply: (state) => apply(state.reader, state),
  })
  const late = twin === 'reads the head after the locks'
  const [first, second] = late ? ([lookAtLocks, lookAtHead] as const) : ([lookAtHead, lookAtLocks] as const)
  switch (reader.phase) {
    case 'ready':
      if (reader.looks === 0) return []
      return [
        step(`looks at ${late ? 'the locks' : 'the head'}`, (own, state) => {
          own.snapshot = [...state.committed]
          first(own, state)
          own.phase = 'one'
        }),
      ]
    case 'one':
      return [
        step(`looks at ${late ? 'the head' : 'the locks'}`, (own, state) => {
          second(own, state)
          own.stableEnd = Math.min(own.head, own.floor ?? own.head)
          own.phase = 'stableEnd'
        }),
      ]
    default:
      return [
        step('reads', (own, state) => {
          const seen = twin === 'reads the events with the snapshot of the look' ? own.snapshot : state.committed
          state.read.push(...seen.filter((position) => position > own.progress && position <= own.stableEnd))
          Object.assign(own, { phase: 'ready', progress: Math.max(own.progress, own.stableEnd), looks: own.looks - 1 })
          Object.assign(own, { head: 0, floor: undefined, stableEnd: 0, snapshot: [] })
        }),
      ]
  }
}

function lookAtHead(own: Reader, state: StableState): void {
  own.head = state.sequence
}

function lookAtLocks(own: Reader, state: StableState): void {
  const floors = state.appends.flatMap(({ floor }) => (floor === undefined ? [] : [floor]))
  own.floor = floors.length === 0 ? undefined : Math.min(...floors)
}
