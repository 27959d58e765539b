import type { Move } from './checker.ts'

export interface ClaimVariant {
  readonly messages: number
  readonly processes: number
  /** Batches in flight per process. */
  readonly slots: number
  /** When an enqueue commits: with its insert, within the look-back after it, or whenever. */
  readonly commits: 'at once' | 'within the look-back' | 'whenever'
  /** Claims that leave so many messages before them go beside those from the floor. */
  readonly apart?: number
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
export type ClaimTwin =
  | (typeof CLAIM_TWINS)[number]
  | 'look-back when a floor goes up'
  | 'floor goes up past what a claim left before it'

/** A row of sluice.message, without a key and of one priority; ids are in the order of the inserts. */
interface Message {
  place: 'none' | 'open' | 'free' | 'locked' | 'gone' | 'rolled back'
  /** The tick of its insert. */
  due: number
  effects: number
}

/** A runner of the demand: TransactionalRound.#runOn, Claimer.#claim. */
export interface Slot {
  at: 'idle' | 'sent' | 'answered' | 'in hand' | 'half done' | 'rolled back'
  /** What was sent: Claimer.#claim */
  floor: number
  bottom: boolean
  /** How many messages it leaves before it. */
  offset: number
  lowered: number
  rows: number[]
  /** The server's clock when it claimed: for one of the twins. */
  now: number
}

/** A process with its Floors: of one priority, as due time and id in one number. */
export interface Process {
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

export type ClaimMove = Move<ClaimState>

export const LIMIT = 2
export const LOOK_BACK = 1
/** Inserts end so long before time does that none is within the look-back then. */
export const LAST_INSERT = 1
export const LAST_TICK = LAST_INSERT + LOOK_BACK + 1

export const IDLE: Slot = { at: 'idle', floor: 0, bottom: false, offset: 0, lowered: 0, rows: [], now: 0 }

export function newProcess({ slots }: ClaimVariant): Process {
  return { floor: 0, lowered: 0, slots: Array.from({ length: slots }, () => ({ ...IDLE })) }
}

export const positionOf = (due: number, id: number) => due * 10 + id
export const positionIn = ({ messages }: ClaimState, id: number) => positionOf(messages[id]!.due, id + 1)

export function has({ without = [] }: ClaimVariant, mechanism: (typeof MECHANISMS)[number]): boolean {
  return !without.includes(mechanism)
}
