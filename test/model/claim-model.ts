import type { Model, Move } from './checker.ts'

export interface ClaimVariant {
  readonly messages: number
  readonly processes: number
  /** Batches in flight per process. */
  readonly slots: number
  /** When an enqueue commits: with its insert, within the look-back after it, or whenever. */
  readonly commits: 'at once' | 'within the look-back' | 'whenever'
  readonly rollbacks?: number
  readonly crashes?: number
  /** A crashed process leaves its place to nobody, as long as there is another. */
  readonly staysDead?: boolean
  /** All of the code is there but what is named. */
  readonly without?: readonly (typeof MECHANISMS)[number][]
  readonly twin?: ClaimTwin
}

/** What brings a row back into sight that lies below a floor. */
export const MECHANISMS = ['the sweep', 'lowering floors', 'the count of lowerings', 'the look-back'] as const

export const CLAIM_TWINS = ['settles before the effects', 'effects outside of the transaction'] as const
export type ClaimTwin = (typeof CLAIM_TWINS)[number] | 'look-back when a floor goes up'

/** A row of sluice.message, without a key and of one priority; ids are in the order of the inserts. */
interface Message {
  place: 'none' | 'open' | 'free' | 'locked' | 'gone' | 'rolled back'
  /** The tick of its insert. */
  due: number
  effects: number
}

/** One of the producer's slots: Producer.#looks, Claimer.#claim. */
interface Slot {
  at: 'idle' | 'sent' | 'answered' | 'in hand' | 'half done' | 'rolled back'
  /** What was sent: Claimer.#claim */
  floor: number
  bottom: boolean
  lowered: number
  rows: number[]
  /** The server's clock when it claimed: for one of the twins. */
  now: number
}

/** A process with its Floors: of one priority, as due time and id in one number. */
interface Process {
  floor: number
  lowered: number
  readonly slots: Slot[]
}

export interface ClaimState {
  readonly messages: Message[]
  readonly processes: Process[]
  now: number
  rollbacks: number
  crashes: number
}

type ClaimMove = Move<ClaimState>

export const LIMIT = 2
const LOOK_BACK = 1
/** Inserts end so long before time does that none is within the look-back then. */
const LAST_INSERT = 1
const LAST_TICK = LAST_INSERT + LOOK_BACK + 1

const IDLE: Slot = { at: 'idle', floor: 0, bottom: false, lowered: 0, rows: [], now: 0 }

/** Claims with floors, settlements and sweeps, beside enqueues that commit late. */
export function claimModel(variant: ClaimVariant): Model<ClaimState> {
  return {
    initial: {
      messages: Array.from({ length: variant.messages }, () => ({ place: 'none', due: 0, effects: 0 }) as const),
      processes: Array.from({ length: variant.processes }, () => newProcess(variant)),
      now: 0,
      rollbacks: variant.rollbacks ?? 0,
      crashes: variant.crashes ?? 0,
    },
    moves: (state) => [
      ...timeMoves(variant, state),
      ...enqueueMoves(variant, state),
      ...state.processes.flatMap((_, at) => processMoves(variant, state, at)),
    ],
    wrong: ({ messages }) => {
      const twice = messages.findIndex(({ effects }) => effects > 1)
      return twice === -1 ? undefined : `message ${twice} took effect twice`
    },
    done: ({ messages }) =>
      messages.every(
        ({ place, effects }) => place === 'none' || place === 'rolled back' || (place === 'gone' && effects === 1),
      ),
    key: ({ messages, processes, now, rollbacks, crashes }) =>
      [
        messages.map(({ place, due, effects }) => `${place}${due}${effects}`),
        processes.map(keyOf).toSorted(),
        `${now}${rollbacks}${crashes}`,
      ].join(),
  }
}

/** Of the count only whether it is the one that was sent matters. */
function keyOf({ floor, lowered, slots }: Process): string {
  const texts = slots.map(
    (slot) => `${slot.at}${slot.floor}${slot.bottom}${slot.lowered === lowered}${slot.rows} ${slot.now}`,
  )
  return `${floor} ${texts.toSorted().join()}`
}

function newProcess({ slots }: ClaimVariant): Process {
  return { floor: 0, lowered: 0, slots: Array.from({ length: slots }, () => ({ ...IDLE })) }
}

const positionOf = (due: number, id: number) => due * 10 + id
const positionIn = ({ messages }: ClaimState, id: number) => positionOf(messages[id]!.due, id + 1)

function has({ without = [] }: ClaimVariant, mechanism: (typeof MECHANISMS)[number]): boolean {
  return !without.includes(mechanism)
}

function timeMoves({ commits }: ClaimVariant, { now, messages }: ClaimState): readonly ClaimMove[] {
  const waits = messages.some(({ place, due }) => place === 'open' && due + LOOK_BACK <= now)
  if (now === LAST_TICK || (waits && commits === 'within the look-back')) return []
  return [
    {
      name: 'time passes',
      apply: (next) => {
        next.now += 1
      },
    },
  ]
}

function enqueueMoves({ commits }: ClaimVariant, { messages, now }: ClaimState): readonly ClaimMove[] {
  const fresh = messages.findIndex((message) => message.place === 'none')
  const moves: ClaimMove[] = messages.flatMap(({ place }, at) => {
    if (place !== 'open') return []
    return [
      {
        name: `message ${at} is committed`,
        apply: (next) => {
          next.messages[at]!.place = 'free'
        },
      },
      {
        name: `message ${at} is rolled back`,
        apply: (next) => {
          next.messages[at]!.place = 'rolled back'
        },
      },
    ]
  })
  if (fresh === -1 || now > LAST_INSERT) return moves
  const first = commits === 'at once' ? 'free' : 'open'
  moves.push({
    name: `message ${fresh} is inserted${commits === 'at once' ? ' and committed' : ''}`,
    apply: (next) => void Object.assign(next.messages[fresh]!, { place: first, due: now }),
    optional: true,
  })
  return moves
}

function processMoves(variant: ClaimVariant, state: ClaimState, at: number): readonly ClaimMove[] {
  const moves = state.processes[at]!.slots.flatMap((slot, number) => slotMoves(variant, state, slot, [at, number]))
  const isLast = state.processes.filter(({ slots }) => slots.length > 0).length === 1
  if (state.crashes === 0 || (variant.staysDead && isLast)) return moves
  const crash = (next: ClaimState) => {
    next.crashes -= 1
    for (const slot of next.processes[at]!.slots) if (hasLocks(slot)) free(next, slot.rows)
    next.processes[at] = newProcess(variant.staysDead ? { ...variant, slots: 0 } : variant)
  }
  const name = `process ${at} crashes${variant.staysDead ? '' : ', and one that knows nothing takes its place'}`
  return [...moves, { name, apply: crash, optional: true }]
}

function hasLocks({ at }: Slot): boolean {
  return at === 'answered' || at === 'in hand' || at === 'half done'
}

function slotMoves(
  variant: ClaimVariant,
  state: ClaimState,
  { at }: Slot,
  [process, number]: readonly [number, number],
): readonly ClaimMove[] {
  const move = (name: string, apply: (slot: Slot, owner: Process, next: ClaimState) => void): ClaimMove => ({
    name: `process ${process}, slot ${number} ${name}`,
    apply: (next) => apply(next.processes[process]!.slots[number]!, next.processes[process]!, next),
  })
  switch (at) {
    case 'idle': {
      const claims = move('sends a claim', (slot, owner, next) => send(variant, slot, owner, next, false))
      // Claimer.send, when the sweep's time has come; Claimer.take, before it says that there is nothing
      const sweeps = move('sends a sweep', (slot, owner, next) => send(variant, slot, owner, next, true))
      return has(variant, 'the sweep') ? [claims, sweeps] : [claims]
    }
    case 'sent':
      return [move('claims', (slot, _, next) => claim(variant, slot, next))]
    case 'answered':
      return [move('has its answer', (slot, owner, next) => answer(variant, slot, owner, next))]
    case 'in hand':
      return [...settleMoves(variant, move), ...rollBackMoves(state, move)]
    case 'half done':
      return [...finishMoves(variant, move), ...rollBackMoves(state, move)]
    case 'rolled back':
      return [move('gives its rows back', (slot, owner, next) => release(variant, slot, owner, next))]
  }
}

type MoveOf = (name: string, apply: (slot: Slot, owner: Process, next: ClaimState) => void) => ClaimMove

/** Floors.priorities */
function send(
  variant: ClaimVariant,
  slot: Slot,
  { floor, lowered }: Process,
  { now }: ClaimState,
  bottom: boolean,
): void {
  const highest = has(variant, 'the look-back') ? positionOf(now - LOOK_BACK, 0) : floor
  Object.assign(slot, { at: 'sent', bottom, lowered, floor: bottom ? 0 : Math.max(0, Math.min(floor, highest)) })
}

/** The statement of table/claim.ts, on the server. */
function claim({ twin }: ClaimVariant, slot: Slot, next: ClaimState): void {
  const due = [...next.messages.keys()].filter((id) => next.messages[id]!.place === 'free')
  slot.rows = due
    .filter((id) => positionIn(next, id) > slot.floor)
    .toSorted((a, b) => positionIn(next, a) - positionIn(next, b))
    .slice(0, LIMIT)
  for (const id of slot.rows) next.messages[id]!.place = 'locked'
  Object.assign(slot, { at: 'answered', floor: 0, now: twin === undefined ? 0 : next.now })
}

/** Floors.claimed */
function answer(variant: ClaimVariant, slot: Slot, owner: Process, next: ClaimState): void {
  const { rows, bottom, lowered } = slot
  const counts = lowered === owner.lowered || !has(variant, 'the count of lowerings')
  for (const id of counts ? rows : []) {
    const mayGoDown = bottom && rows.length === LIMIT && id === rows.at(-1)
    const back = variant.twin === 'look-back when a floor goes up' ? positionOf(slot.now - LOOK_BACK, 0) : Infinity
    const position = Math.min(positionIn(next, id), back)
    if (mayGoDown || owner.floor < position) owner.floor = Math.max(0, position)
  }
  Object.assign(slot, rows.length > 0 ? { ...IDLE, at: 'in hand', rows } : IDLE)
}

/** Effects and settlement are one transaction: ConsumedBatch.run, write, and COMMIT. */
function settleMoves({ twin }: ClaimVariant, move: MoveOf): readonly ClaimMove[] {
  const halfDone = (name: string, apply: (next: ClaimState, rows: readonly number[]) => void) =>
    move(name, (slot, _, next) => {
      apply(next, slot.rows)
      slot.at = 'half done'
    })
  switch (twin) {
    case 'settles before the effects':
      return [halfDone('commits its settlement', remove)]
    case 'effects outside of the transaction':
      return [halfDone('has its effects', takeEffect)]
    default:
      return [
        move('commits', (slot, _, next) => {
          takeEffect(next, slot.rows)
          remove(next, slot.rows)
          Object.assign(slot, IDLE)
        }),
      ]
  }
}

function finishMoves({ twin }: ClaimVariant, move: MoveOf): readonly ClaimMove[] {
  const settled = twin === 'settles before the effects'
  return [
    move(settled ? 'has its effects' : 'commits its settlement', (slot, _, next) => {
      ;(settled ? takeEffect : remove)(next, slot.rows)
      Object.assign(slot, IDLE)
    }),
  ]
}

function rollBackMoves({ rollbacks }: ClaimState, move: MoveOf): readonly ClaimMove[] {
  if (rollbacks === 0) return []
  const rollsBack = move('rolls back', (slot, _, next) => {
    next.rollbacks -= 1
    free(next, slot.rows)
    slot.at = 'rolled back'
  })
  return [{ ...rollsBack, optional: true }]
}

/** Claimer.release, Floors.lower: when the server has rolled back */
function release(variant: ClaimVariant, slot: Slot, owner: Process, next: ClaimState): void {
  if (has(variant, 'lowering floors')) {
    owner.lowered += 1
    for (const id of slot.rows) owner.floor = Math.min(owner.floor, positionIn(next, id) - 1)
  }
  Object.assign(slot, IDLE)
}

function takeEffect({ messages }: ClaimState, rows: readonly number[]): void {
  for (const id of rows) messages[id]!.effects += 1
}

function remove({ messages }: ClaimState, rows: readonly number[]): void {
  for (const id of rows) messages[id]!.place = 'gone'
}

function free({ messages }: ClaimState, rows: readonly number[]): void {
  for (const id of rows) if (messages[id]!.place === 'locked') messages[id]!.place = 'free'
}
