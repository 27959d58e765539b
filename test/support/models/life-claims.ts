import { expect } from 'vitest'
import { hasSqlState } from '../../../src/basics/errors/sql-state.ts'
import type { Outcome } from '../../../src/message.ts'
import { releaseClaim, renewClaim, settleClaimed } from '../../../src/table/pull/settle-claim.ts'
import { expectTaken } from './life-agreement.ts'
import type { End, Holder, LifeModel } from './life-model.ts'
import type { LifeSystem } from './life-system.ts'

const HOUR_MS = 3_600_000

export async function claimObject(
  model: LifeModel,
  system: LifeSystem,
  limit: number,
  leaseHours: number,
  grace: number,
) {
  const hands = await system.takeClaim(limit, leaseHours, grace)
  const ids = hands?.rows.map(({ id }) => id) ?? []
  await expectTakenByFunction(model, system, ids, limit)
  if (hands === undefined) return
  const holder = model.takes('claim', ids, model.now + leaseHours * 60)
  model.renewed(holder, holder.until, holder.until + grace * 60)
  claimTerms.set(holder, { leaseHours, grace })
  system.hands.set(holder.number, hands)
}

const claimTerms = new WeakMap<Holder, { readonly leaseHours: number; readonly grace: number }>()

export async function pop(model: LifeModel, system: LifeSystem, limit: number): Promise<void> {
  const ids = await system.pop(limit)
  await expectTakenByFunction(model, system, ids, limit)
  for (const id of ids) model.settle(id, 'ack', 0)
}

/** A function removes what has expired on its way, and begins at the first message without a key. */
async function expectTakenByFunction(model: LifeModel, system: LifeSystem, ids: readonly string[], most: number) {
  const { rows, dead } = await system.look()
  const there = new Set(rows.map(({ id }) => String(id)))
  for (;;) {
    const met = model.takeable().find((row) => model.hasExpired(row) && !there.has(row.id))
    if (met === undefined) break
    model.expired(met.id)
  }
  expect(dead).toEqual(model.dead)
  expectTaken(model, ids, { most, onePerSlot: true })
  const unkeyed = model.takeable().filter(({ key }) => key === null)
  const taken = unkeyed.filter(({ id }) => ids.includes(id)).map(({ priority }) => priority)
  const left = unkeyed.filter(({ id }) => !ids.includes(id)).map(({ priority }) => priority)
  expect(Math.max(-1, ...taken), 'the lowest number goes first').toBeLessThanOrEqual(Math.min(10, ...left))
}

/** Whether a claim lasts; else what is asked of it is refused. */
async function lasts(model: LifeModel, holder: Holder, asking: () => Promise<unknown>): Promise<boolean> {
  if (!holder.over && holder.until > model.now) return true
  const refused: unknown = await asking().catch((error: unknown) => error)
  // One that has been over for an hour is deleted by the next claim.
  const states = holder.over ? ['SL010'] : ['SL011', ...(holder.until + 60 <= model.now ? ['SL010'] : [])]
  expect(
    states.some((state) => hasSqlState(refused, state)),
    `a claim that is over: ${refused}`,
  ).toBe(true)
  return false
}

export async function settleClaim(
  model: LifeModel,
  system: LifeSystem,
  holder: Holder,
  how: End,
  all: boolean,
  after: number,
) {
  const { claimId = '' } = system.hands.get(holder.number)!
  const ids = all ? holder.ids : holder.ids.slice(0, 1)
  const settling = () => settleClaimed(system.execute, system.queue, claimId, ids, outcomeOf(how, after))
  if (!(await lasts(model, holder, settling))) return
  const refusals = new Map(ids.map((id) => [id, refusalOf(model, holder, id)]))
  const ended = await settling()
  for (const id of ids) if (refusals.get(id) === undefined) model.settle(id, how, after)
  expect(new Map(ended.map(({ id, refused }) => [id, refused]))).toEqual(refusals)
  holder.over = model.heldBy(holder).length === 0
}

function refusalOf(model: LifeModel, holder: Holder, id: string): string | undefined {
  const row = model.rows.get(id)
  if (row === undefined) return 'gone'
  if (row.lease === holder) return undefined
  return row.lease !== null && row.lease !== 0 && row.due > model.now ? 'claimed_by_other' : 'not_claimed'
}

function outcomeOf(how: End, after: number): Outcome {
  if (how === 'retry') return { kind: 'retryLater', afterMs: after * HOUR_MS, error: 'broken' }
  if (how === 'snooze') return { kind: 'snooze', afterMs: after * HOUR_MS }
  return how === 'bury' ? { kind: 'deadLetter', reason: 'broken' } : { kind: 'ack' }
}

export async function renewTheClaim(model: LifeModel, system: LifeSystem, holder: Holder): Promise<void> {
  const { claimId = '' } = system.hands.get(holder.number)!
  const renewing = () => renewClaim(system.execute, system.queue, claimId, { leaseMs: null, graceMs: null })
  if (!(await lasts(model, holder, renewing))) return
  await renewing()
  const { leaseHours, grace } = claimTerms.get(holder)!
  const until = model.now + leaseHours * 60
  model.renewed(holder, until, until + grace * 60)
}

export async function release(model: LifeModel, system: LifeSystem, holder: Holder): Promise<void> {
  const { claimId = '' } = system.hands.get(holder.number)!
  const isOver = holder.over || holder.until <= model.now
  const released = await releaseClaim(system.execute, system.queue, claimId)
  expect(released).toBe(isOver ? 0 : model.heldBy(holder).length)
  if (!isOver) model.released(holder)
}
