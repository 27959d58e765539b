import type { Model } from './checker.ts'
import { processMoves } from './claim-process.ts'
import {
  type ClaimMove,
  type ClaimState,
  type ClaimVariant,
  LAST_INSERT,
  LAST_TICK,
  LOOK_BACK,
  newProcess,
  type Process,
} from './claim-state.ts'

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
  const strings = slots.map(
    (slot) => `${slot.at}${slot.floor}${slot.bottom}${slot.offset}${slot.lowered === lowered}${slot.rows} ${slot.now}`,
  )
  return `${floor} ${strings.toSorted().join()}`
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
