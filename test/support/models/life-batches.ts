import { expect, inject } from 'vitest'
import { renewLeases } from '../../../src/table/settle/leases.ts'
import { waitFor } from '../wait.ts'
import { expectTaken } from './life-agreement.ts'
import type { End, Holder, LifeModel } from './life-model.ts'
import { LEASE_HOURS, type LifeSystem } from './life-system.ts'

const HOUR_MS = 3_600_000

export async function claim(
  model: LifeModel,
  system: LifeSystem,
  mode: 'transaction' | 'lease',
  most: number,
): Promise<void> {
  const open = model.holders.filter(({ kind, over }) => kind === 'transaction' && !over).length
  if (mode === 'transaction' && open >= MOST_OPEN) return
  // Between two sweeps a process may find nothing.
  const hands =
    model.takeable().length === 0
      ? await system.claim(mode, most)
      : await waitFor(() => system.claim(mode, most), { what: 'a claim to find something', timeoutMs: 5_000 })
  if (hands === undefined) return
  const ids = hands.rows.map(({ id }) => id)
  expectTaken(model, ids, { most, onePerSlot: mode === 'lease' })
  expect([...hands.expired].toSorted()).toEqual(ids.filter((id) => model.hasExpired(model.row(id))).toSorted())
  const holder = model.takes(mode, ids, mode === 'lease' ? model.now + LEASE_HOURS * 60 : model.now)
  if (mode === 'lease') for (const id of hands.expired) model.expired(id)
  system.hands.set(holder.number, hands)
}

const MOST_OPEN = 3

export async function settleTransaction(
  model: LifeModel,
  system: LifeSystem,
  holder: Holder,
  drawn: readonly End[],
  after: number,
): Promise<void> {
  const hands = system.hands.get(holder.number)!
  const all = new Map<string, End | 'expired'>()
  const postponed = new Set<string>()
  for (const [at, id] of holder.ids.entries()) {
    const { key } = model.row(id)
    // What comes behind a message that is to be tried again is not handled.
    const mayEnd = key === null || !postponed.has(key)
    const wanted: End = mayEnd ? drawn[at]! : 'leave'
    all.set(id, hands.expired.has(id) ? 'expired' : wanted)
    if (key !== null && all.get(id) !== 'ack' && all.get(id) !== 'bury' && all.get(id) !== 'expired') postponed.add(key)
  }
  await system.commits(holder.number, all, after)
  for (const id of hands.expired) model.expired(id)
  const ends = [...all].filter((one): one is [string, End] => one[1] !== 'expired')
  model.lockedSlots = await system.lockedSlots()
  model.commits(holder, new Map(ends), after)
  if (model.holds.told) model.holds.release()
}

export async function rollBack(model: LifeModel, system: LifeSystem, holder: Holder): Promise<void> {
  await system.rollsBack(holder.number)
  model.lockedSlots = await system.lockedSlots()
  model.rollsBack(holder)
  if (model.holds.told) model.holds.release()
}

/** A message that a transaction has locked would be waited for. */
function waitsForBatch(model: LifeModel, holder: Holder): boolean {
  return model.heldBy(holder).some((id) => model.row(id).locked !== undefined)
}

export async function settleLease(
  model: LifeModel,
  system: LifeSystem,
  holder: Holder,
  how: End,
  all: boolean,
  after: number,
) {
  if (waitsForBatch(model, holder)) return
  const ids = all ? holder.ids : holder.ids.slice(0, 1)
  const held = model.heldBy(holder).filter((id) => ids.includes(id))
  expect((await system.settleLease(holder.number, ids, how, after)).toSorted()).toEqual(held.toSorted())
  for (const id of held) model.settle(id, how, after)
}

export async function renewLease(model: LifeModel, system: LifeSystem, holder: Holder): Promise<void> {
  if (waitsForBatch(model, holder)) return
  const { lease = '' } = system.hands.get(holder.number)!
  const messages = holder.ids.map((id) => ({ id, lease }))
  const renewed = await renewLeases(
    system.execute,
    system.queue,
    messages,
    LEASE_HOURS * HOUR_MS,
    inject('serverVersion'),
  )
  expect(renewed.toSorted()).toEqual(model.heldBy(holder).toSorted())
  model.renewed(holder, model.now + LEASE_HOURS * 60)
}
