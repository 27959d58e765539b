import {
  type FlagMove,
  type FlagState,
  type FlagVariant,
  isHeld,
  isShared,
  newWatcher,
  notify,
  type Watcher,
} from './waiting-flag-state.ts'

/** What one process does next: its slot, its flag, what reaches it, and what befalls it. */
export class WatcherMoves {
  readonly #variant: FlagVariant
  readonly #state: FlagState
  readonly #watcher: Watcher
  readonly #number: number

  constructor(variant: FlagVariant, state: FlagState, watcher: Watcher, number: number) {
    this.#variant = variant
    this.#state = state
    this.#watcher = watcher
    this.#number = number
  }

  all(): readonly FlagMove[] {
    const { slot, inbox, timer, lingers } = this.#watcher
    if (slot === 'gone' && this.#watcher.asked === 'nothing') return []
    const moves = [...this.#slot(), ...this.#flag(), ...this.#faults()]
    if (slot === 'gone') return moves
    if (inbox > 0) moves.push(...this.#notifications())
    if (lingers) moves.push(this.#move('has lingered', (one) => this.#hasLingered(one)))
    if (timer) moves.push(this.#move('has waited for enqueues', (one) => this.#lookLater(one)))
    if (this.#variant.poll) moves.push(...this.#poll())
    return moves
  }

  #move(name: string, apply: (watcher: Watcher, state: FlagState) => void): FlagMove {
    return {
      name: `watcher ${this.#watcher.id} ${name}`,
      apply: (next) => apply(next.watchers[this.#number]!, next),
    }
  }

  #slot(): readonly FlagMove[] {
    switch (this.#watcher.slot) {
      case 'looks':
        if (this.#state.messages === 0)
          return [
            this.#move('sees nothing', (one) => {
              one.slot = 'nothing'
            }),
          ]
        return [
          this.#move('claims a message', (one, next) => {
            one.slot = 'found'
            next.messages -= 1
          }),
        ]
      case 'nothing':
        return [this.#move('hears that there is nothing', (one) => this.#foundNothing(one))]
      case 'found':
        return [this.#move('goes to work', (one) => this.#found(one))]
      case 'busy':
        // TransactionalRound.#process: the next claim is sent behind the COMMIT.
        return [{ ...this.#move('commits its batch, and looks again', (one) => look(one)), optional: true }]
      case 'asleep':
      case 'gone':
        return []
    }
  }

  /** Demand.#foundNothing, Sleepers.asleep */
  #foundNothing(one: Watcher): void {
    if (one.again) {
      look(one)
      return
    }
    one.slot = 'asleep'
    one.notified = false
    this.#raise(one)
  }

  /** WaitingFlag.raise */
  #raise(one: Watcher): void {
    one.wanted = true
    if (one.flag !== 'down' || one.timer) return
    if (!one.lingers) tryFor(one)
    else if (this.#variant.twin !== 'lingers without looking again') one.timer = true
  }

  /** WaitingFlag.#next */
  #next(one: Watcher): void {
    if (one.wanted) this.#raise(one)
    else if (one.unannounced && !one.lingers) announce(one)
  }

  /** The timer of WaitingFlag.#nextIn, if nobody waits. */
  #hasLingered(one: Watcher): void {
    one.lingers = false
    if (one.flag === 'down' && !one.wanted) this.#next(one)
  }

  /** Demand.found, Sleepers.awake */
  #found(one: Watcher): void {
    one.slot = 'busy'
    this.#lower(one)
  }

  /** WaitingFlag.lower */
  #lower(one: Watcher): void {
    one.wanted = false
    one.timer = false
    if (one.flag === 'ours') unlock(one)
    if (one.flag === 'others') one.flag = 'down'
    if (one.flag === 'down') this.#next(one)
  }

  /** How long it slept decides whether it lingers. */
  #notifications(): readonly FlagMove[] {
    const { lingers = false } = this.#variant
    const moves = [this.#move('is notified', (one) => this.#isNotified(one, false))]
    if (lingers) moves.push(this.#move('is notified, and lingers', (one) => this.#isNotified(one, true)))
    return moves
  }

  /** Sleepers.notified: WaitingFlag.notified, WaitingQueue.wake */
  #isNotified(one: Watcher, lingers: boolean): void {
    one.inbox -= 1
    one.notified = this.#variant.twin === 'does not tell when it was notified'
    one.lingers = lingers
    if (one.flag === 'ours' && lingers) rest(one)
    else this.#othersMoved(one)
    if (one.slot !== 'asleep' && this.#variant.twin === 'overhears a notification while it looks') return
    wake(one)
  }

  /** WaitingFlag.othersMoved */
  #othersMoved(one: Watcher): void {
    one.moved = true
    if (one.flag !== 'others') return
    one.flag = 'down'
    this.#next(one)
  }

  /** The timer of WaitingFlag.#lookSoon */
  #lookLater(one: Watcher): void {
    one.timer = false
    if (one.wanted) wake(one)
  }

  /** WaitingFlag.#raise, #lower, #rest and #tell, and the statements of table/worker/wait.ts, which are not atomic. */
  #flag(): readonly FlagMove[] {
    const { asked } = this.#watcher
    const free = !isHeld(this.#state) && !isShared(this.#state)
    switch (asked) {
      case 'nothing':
        return []
      case 'try':
        if (!free)
          return [
            this.#move('cannot raise the flag', (one) => {
              one.asked = 'try shared'
            }),
          ]
        return [this.#move('raises the flag', (one) => Object.assign(one, { asked: 'ours', exclusive: true }))]
      case 'try shared':
        if (isHeld(this.#state))
          return [
            this.#move('finds that another waits', (one) => {
              one.asked = 'others'
            }),
          ]
        return [
          this.#move('finds that enqueues are in flight', (one) => {
            one.asked = 'shared'
          }),
        ]
      case 'shared':
        return [
          this.#move('ends its statement', (one) => {
            one.asked = 'enqueueing'
          }),
        ]
      case 'ours':
      case 'enqueueing':
      case 'others':
        return [this.#move(`hears "${asked}"`, (one) => this.#raised(one, asked))]
      case 'unlock':
        return [this.#move('lowers the flag', (one) => Object.assign(one, { asked: 'tell', exclusive: false }))]
      case 'tell':
        return [this.#move('tells the others', (one, next) => this.#announce(one, next))]
      case 'lowered':
        return [this.#move('hears "lowered"', (one) => this.#isDown(one, false))]
      case 'rest':
        return [this.#move('rests the flag', (one) => Object.assign(one, { asked: 'rested', exclusive: false }))]
      case 'rested':
        return [this.#move('hears "rested"', (one) => this.#isDown(one, true))]
    }
  }

  #announce(one: Watcher, next: FlagState): void {
    const { twin } = this.#variant
    const silent = twin === 'lowers without telling' || (twin === 'does not tell when it was notified' && one.notified)
    one.asked = 'lowered'
    if (!silent) notify(next, one.id)
  }

  #raised(one: Watcher, answer: 'ours' | 'enqueueing' | 'others'): void {
    const { twin } = this.#variant
    one.asked = 'nothing'
    if (answer === 'ours' && !one.wanted) {
      unlock(one)
      return
    }
    const moved = one.moved && twin !== 'forgets that others moved while it tried'
    if (answer === 'others' && one.wanted && moved) {
      tryFor(one)
      return
    }
    if (answer !== 'enqueueing') one.unannounced = false
    one.flag = answer === 'enqueueing' || !one.wanted ? 'down' : answer
    if (!one.wanted) {
      this.#next(one)
      return
    }
    if (answer === 'ours' && twin !== 'does not look again under its flag') wake(one)
    if (answer === 'enqueueing' && twin !== 'sleeps when enqueues are in flight') one.timer = true
  }

  #isDown(one: Watcher, unannounced: boolean): void {
    one.asked = 'nothing'
    one.flag = 'down'
    one.unannounced = unannounced
    this.#next(one)
  }

  /** Poll.#poll, and #checkFlags without its own brief lock */
  #poll(): readonly FlagMove[] {
    const { slot, flag } = this.#watcher
    const moves: FlagMove[] = []
    if (slot === 'asleep' && this.#state.messages > 0) moves.push(this.#move('polls', (one) => wake(one)))
    if (flag === 'others' && !isHeld(this.#state))
      moves.push(this.#move('finds no flag', (one) => this.#othersMoved(one)))
    return moves
  }

  #faults(): readonly FlagMove[] {
    const { slot, exclusive, asked } = this.#watcher
    const { stops, vanishes, watchers } = this.#state
    const moves: FlagMove[] = []
    const isLast = watchers.filter((one) => one.slot !== 'gone').length === 1
    if (isLast || slot === 'gone') return moves
    if (stops > 0 && slot === 'asleep')
      moves.push({ ...this.#move('stops', (one, next) => this.#stop(one, next)), optional: true })
    const inHand = slot === 'found' || slot === 'busy'
    const { which = 'any' } = this.#variant.vanishes ?? {}
    const mayVanish = which === 'any' || (!inHand && (which === 'flag holders' || (!exclusive && asked !== 'tell')))
    if (vanishes > 0 && mayVanish) moves.push({ ...this.#move('vanishes', vanish), optional: true })
    return moves
  }

  /** Sleepers.detach: what the control connection was asked is still answered. */
  #stop(one: Watcher, state: FlagState): void {
    one.slot = 'gone'
    one.again = false
    one.inbox = 0
    one.lingers = false
    this.#lower(one)
    state.stops -= 1
  }
}

/** TransactionalRound.#send, Hints.sent */
function look(one: Watcher): void {
  one.slot = 'looks'
  one.again = false
}

/** WaitingQueue.wake: Demand.wake, or checkAgain if it is awake */
function wake(one: Watcher): void {
  if (one.slot === 'asleep') look(one)
  else if (one.slot !== 'gone') one.again = true
}

function tryFor(one: Watcher): void {
  one.flag = 'moving'
  one.moved = false
  one.asked = 'try'
}

function rest(one: Watcher): void {
  one.flag = 'moving'
  one.asked = 'rest'
}

function announce(one: Watcher): void {
  one.flag = 'moving'
  one.asked = 'tell'
}

function unlock(one: Watcher): void {
  one.flag = 'moving'
  one.asked = 'unlock'
}

/** Its locks and its batch end with its connections. */
function vanish(one: Watcher, state: FlagState): void {
  if (one.slot === 'found' || one.slot === 'busy') state.messages += 1
  Object.assign(one, { ...newWatcher(one.id), slot: 'gone' })
  state.vanishes -= 1
}
