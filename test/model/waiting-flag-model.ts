import type { Model } from './checker.ts'
import {
  type Enqueuer,
  type FlagMove,
  type FlagState,
  type FlagVariant,
  isHeld,
  newWatcher,
  notify,
  type Watcher,
} from './waiting-flag-state.ts'
import { WatcherMoves } from './waiting-flag-watcher.ts'

/** The waiting flag between its processes, with the safety poll off unless the variant says so. */
export function flagModel(variant: FlagVariant): Model<FlagState> {
  return {
    initial: {
      enqueuers: Array.from({ length: variant.enqueuers }, () => 'idle' as const),
      watchers: Array.from({ length: variant.watchers }, (_, id) => newWatcher(id)),
      messages: 0,
      stops: variant.stops ?? 0,
      vanishes: variant.vanishes?.count ?? 0,
    },
    moves: (state) => [
      ...state.enqueuers.flatMap((at, number) => enqueuerMoves(variant, state, at, number)),
      ...state.watchers.flatMap((watcher, number) => new WatcherMoves(variant, state, watcher, number).all()),
    ],
    wrong: ({ watchers }) =>
      watchers.filter(({ exclusive }) => exclusive).length > 1 ? 'two hold the flag' : undefined,
    // Who works may do so for ever: it is enough if nobody else could do it.
    done: ({ enqueuers, watchers, messages }) =>
      enqueuers.every((at) => at === 'idle' || at === 'ended') &&
      (messages === 0 || watchers.every(({ slot }) => slot === 'busy' || slot === 'gone')),
    key: ({ enqueuers, watchers, messages, stops, vanishes }) =>
      [...enqueuers.toSorted(), ...watchers.map(keyOf).toSorted(), messages, stops, vanishes].join(),
  }
}

/** What is set before it is read again is left out. */
function keyOf(watcher: Watcher): string {
  const { slot, again, flag, wanted, moved, timer, unannounced, lingers, asked, exclusive, inbox, notified } = watcher
  const looking = slot === 'looks' || slot === 'nothing'
  const bits = [looking && again, wanted, flag === 'moving' && moved, timer, unannounced, lingers, exclusive, notified]
  return `${slot} ${flag} ${asked} ${bits.map(Number).join('')}${inbox}`
}

function enqueuerMoves({ twin }: FlagVariant, state: FlagState, at: Enqueuer, number: number): readonly FlagMove[] {
  const move = (name: string, to: Enqueuer, effect: (next: FlagState) => void = () => undefined): FlagMove => ({
    name: `enqueuer ${number} ${name}`,
    apply: (next) => {
      effect(next)
      next.enqueuers[number] = to
    },
  })
  const asks = isHeld(state)
    ? move('asks for the flag, and is to notify', 'notifying')
    : move(
        'asks for the flag, and keeps others from it',
        twin === 'checks the flag without locking' ? 'unlocked' : 'locked',
      )
  const rollsBack = move('rolls back', 'ended')
  const seen = (next: FlagState) => {
    next.messages += 1
  }
  switch (at) {
    case 'idle':
      return [{ ...asks, optional: true }]
    case 'locked':
      if (twin === 'frees the flag before its message is visible')
        return [move('frees the flag', 'unlocked'), rollsBack]
      return [move('commits', 'seen locked', seen), rollsBack]
    case 'unlocked':
      return [move('commits', 'ended', seen), rollsBack]
    case 'notifying':
      return [move('commits', 'seen notifying', seen), rollsBack]
    case 'seen locked':
      return [move('frees the flag', 'ended')]
    case 'seen notifying':
      return [move('notifies', 'ended', notify)]
    case 'ended':
      return []
  }
}
