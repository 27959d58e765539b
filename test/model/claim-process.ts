import {
  type ClaimMove,
  type ClaimState,
  type ClaimVariant,
  has,
  IDLE,
  LIMIT,
  LOOK_BACK,
  newProcess,
  type Process,
  positionIn,
  positionOf,
  type Slot,
} from './claim-state.ts'

export function processMoves(variant: ClaimVariant, state: ClaimState, at: number): readonly ClaimMove[] {
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
      const apart = move('sends a claim apart', (slot, owner, next) => {
        send(variant, slot, owner, next, false)
        slot.offset = variant.apart ?? 0
      })
      return [claims, ...(has(variant, 'the sweep') ? [sweeps] : []), ...(variant.apart === undefined ? [] : [apart])]
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

/** The statements of table/claim/claim.ts and table/claim/claim-apart.ts, on the server. */
function claim({ twin }: ClaimVariant, slot: Slot, next: ClaimState): void {
  const inOrder = [...next.messages.keys()]
    .filter((id) => next.messages[id]!.place === 'free' || next.messages[id]!.place === 'locked')
    .filter((id) => positionIn(next, id) > slot.floor)
    .toSorted((a, b) => positionIn(next, a) - positionIn(next, b))
  const start = slot.offset > 0 && slot.offset < inOrder.length ? slot.offset + 1 : 0
  slot.rows = [...inOrder.slice(start), ...inOrder.slice(0, start)]
    .filter((id) => next.messages[id]!.place === 'free')
    .slice(0, LIMIT)
  for (const id of slot.rows) next.messages[id]!.place = 'locked'
  Object.assign(slot, { at: 'answered', floor: 0, now: twin === undefined ? 0 : next.now })
}

/** Floors.claimed */
function answer(variant: ClaimVariant, slot: Slot, owner: Process, next: ClaimState): void {
  const { rows, bottom, lowered, offset } = slot
  // A claim that began behind others says nothing about those.
  const fromFloor = offset === 0 || variant.twin === 'floor goes up past what a claim left before it'
  const counts = fromFloor && (lowered === owner.lowered || !has(variant, 'the count of lowerings'))
  for (const id of counts ? rows : []) {
    const back = variant.twin === 'look-back when a floor goes up' ? positionOf(slot.now - LOOK_BACK, 0) : Infinity
    const position = Math.min(positionIn(next, id), back)
    const goesDown = bottom && rows.length === LIMIT && id === rows.at(-1) && position < owner.floor
    if (goesDown) owner.lowered += 1
    if (goesDown || owner.floor < position) owner.floor = Math.max(0, position)
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
