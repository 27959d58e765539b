import type { Move } from './checker.ts'

/** What is left out of the code, and what may happen. The code itself has none of these. */
export interface FlagVariant {
  readonly watchers: number
  readonly enqueuers: number
  /** Processes that stop in order, and that vanish: none, those that have neither the flag nor a message, or any. */
  readonly stops?: number
  readonly vanishes?: { readonly count: number; readonly which: 'bystanders' | 'flag holders' | 'any' }
  readonly poll?: boolean
  /** Whether a process that is notified may linger. @default false */
  readonly lingers?: boolean
  readonly twin?: FlagTwin
}

export const FLAG_TWINS = [
  'does not look again under its flag',
  'sleeps when enqueues are in flight',
  'lowers without telling',
  'does not tell when it was notified',
  'forgets that others moved while it tried',
  'overhears a notification while it looks',
  'lingers without looking again',
  'checks the flag without locking',
  'frees the flag before its message is visible',
] as const
export type FlagTwin = (typeof FLAG_TWINS)[number]

/**
 * - idle: its row is no step of its own, because nobody sees it
 * - locked, notifying: the condition of the trigger has tried for the shared lock, and the transaction holds the shared lock, or is to notify
 * - seen locked, seen notifying: COMMIT has made the row visible, and has not freed the lock or sent the notification
 */
export type Enqueuer = 'idle' | 'locked' | 'notifying' | 'seen locked' | 'seen notifying' | 'unlocked' | 'ended'

/** What the control connection is asked, and how far it is: the statements of table/worker/wait.ts. */
type Asked =
  | 'nothing'
  | 'try'
  | 'try shared'
  | 'shared'
  | 'ours'
  | 'enqueueing'
  | 'others'
  | 'unlock'
  | 'tell'
  | 'lowered'
  | 'rest'
  | 'rested'

export interface Watcher {
  readonly id: number
  /** Its one runner: TransactionalRound.#runOn waits for a claim, has its answer, runs a batch, or sleeps. */
  slot: 'looks' | 'nothing' | 'found' | 'busy' | 'asleep' | 'gone'
  /** Hints.#again */
  again: boolean
  /** WaitingFlag: #state, #wanted, #moved, #again, #unannounced, #linger.lasts */
  flag: 'down' | 'moving' | 'ours' | 'others'
  wanted: boolean
  moved: boolean
  timer: boolean
  unannounced: boolean
  lingers: boolean
  asked: Asked
  /** Its session has the exclusive lock. */
  exclusive: boolean
  /** Notifications on the way to it: messages, or others who lower their flag. */
  inbox: number
  /** For one of the twins. */
  notified: boolean
}

export interface FlagState {
  readonly enqueuers: Enqueuer[]
  readonly watchers: Watcher[]
  /** Committed, and in nobody's hands. */
  messages: number
  stops: number
  vanishes: number
}

export type FlagMove = Move<FlagState>

export function newWatcher(id: number): Watcher {
  return {
    id,
    slot: 'looks',
    again: false,
    flag: 'down',
    wanted: false,
    moved: false,
    timer: false,
    unannounced: false,
    lingers: false,
    asked: 'nothing',
    exclusive: false,
    inbox: 0,
    notified: false,
  }
}

export const isHeld = ({ watchers }: FlagState) => watchers.some(({ exclusive }) => exclusive)

export const isShared = ({ enqueuers, watchers }: FlagState) =>
  enqueuers.some((at) => at === 'locked' || at === 'seen locked') || watchers.some(({ asked }) => asked === 'shared')

/** More than two on the way are no more than two: each makes it look once more. */
export function notify({ watchers }: FlagState, but?: number): void {
  for (const watcher of watchers) {
    if (watcher.id !== but && watcher.slot !== 'gone') watcher.inbox = Math.min(watcher.inbox + 1, 2)
  }
}
