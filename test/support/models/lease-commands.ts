import fc from 'fast-check'
import { expect } from 'vitest'
import type { End, LeaseModel, Takeable, Way } from './lease-model.ts'
import type { LeaseSystem } from './lease-system.ts'
import { pick } from './model-steps.ts'

/** Something that is done to a queue: by the library's statements, and by the model. */
export interface LeaseCommand {
  readonly run: (model: LeaseModel, system: LeaseSystem) => Promise<void>
  readonly [fc.toStringMethod]: () => string
}

const ways = fc.constantFrom<Way>('unkeyed', 'slots', 'slots', 'free slots')
const limits = fc.integer({ min: 1, max: 4 })
const ends = fc.constantFrom<End>('ack', 'give back', 'retry later', 'bury')
const claims = fc.nat(12)

/** Commands on a queue whose ordering keys are among these, which have these slots. */
export function leaseCommandsOf(slots: ReadonlyMap<string, number>): fc.Arbitrary<readonly LeaseCommand[]> {
  const keys = fc.array(fc.constantFrom(null, ...slots.keys()), { minLength: 1, maxLength: 5 })
  const command = fc.oneof(
    commandOf('enqueue', fc.tuple(keys), async (model, system, of) => {
      const ids = await system.put(of)
      model.add(of.map((key, at) => ({ id: ids[at]!, key, slot: key === null ? null : slots.get(key)! })))
    }),
    commandOf('appears below', fc.tuple(fc.constantFrom(...slots.keys())), async (model, system, key) => {
      model.add([{ id: await system.putBelow(key), key, slot: slots.get(key)! }])
    }),
    commandOf('lease', fc.tuple(ways, limits), lease),
    commandOf('lease', fc.tuple(ways, limits), lease),
    commandOf('handle', fc.tuple(ways, limits, fc.oneof(ends, fc.constant('roll back' as const))), handle),
    commandOf('settle', fc.tuple(claims, ends), toClaim(settle)),
    commandOf('settle', fc.tuple(claims, ends), toClaim(settle)),
    commandOf('renew', fc.tuple(claims), toClaim(renew)),
    commandOf('expire', fc.tuple(claims), toClaim(expire)),
    commandOf('rescue', fc.tuple(claims), toClaim(rescue)),
    commandOf('cancel', fc.tuple(fc.nat(20)), cancel),
    commandOf('time passes', fc.tuple(), async (model, system) => {
      await system.timePasses()
      model.timePasses()
    }),
  )
  return fc.array(command, { minLength: 10, maxLength: 40, size: 'max' })
}

function commandOf<T extends readonly unknown[]>(
  name: string,
  drawn: fc.Arbitrary<T>,
  act: (model: LeaseModel, system: LeaseSystem, ...values: T) => Promise<void>,
): fc.Arbitrary<LeaseCommand> {
  return drawn.map((values) => ({
    run: async (model, system) => {
      await act(model, system, ...values)
      await expectAgreement(model, system)
    },
    [fc.toStringMethod]: () => `${name}(${values.map((value) => fc.stringify(value)).join(', ')})`,
  }))
}

async function lease(model: LeaseModel, system: LeaseSystem, way: Way, limit: number): Promise<void> {
  const ids = await system.lease(way, limit, model.claims.length + 1)
  expectTaken(ids, model.leasable(way), limit, way)
  model.leases(ids)
}

async function handle(model: LeaseModel, system: LeaseSystem, way: Way, limit: number, end: End | 'roll back') {
  const ids = await system.handle(way, limit, end)
  expectTaken(ids, model.takeable(way), limit, way)
  if (end !== 'roll back') model.settle(ids, end, 'transactional')
}

/** Perhaps late: some of them have been lost by now. */
async function settle(model: LeaseModel, system: LeaseSystem, number: number, end: End): Promise<void> {
  const ids = model.claims[number - 1] ?? []
  const held = model.heldBy(number)
  expect((await system.settle(ids, number, end)).toSorted()).toEqual(held.toSorted())
  model.settle(held, end, 'leased')
}

async function renew(model: LeaseModel, system: LeaseSystem, number: number): Promise<void> {
  const renewed = await system.renew(model.claims[number - 1] ?? [], number)
  expect(renewed.toSorted()).toEqual(model.heldBy(number).toSorted())
  model.renew(number)
}

async function expire(model: LeaseModel, system: LeaseSystem, number: number): Promise<void> {
  await system.expire(number)
  model.expire(number)
}

async function rescue(model: LeaseModel, system: LeaseSystem, number: number): Promise<void> {
  await system.rescue(number)
  model.rescue(number)
}

async function cancel(model: LeaseModel, system: LeaseSystem, at: number): Promise<void> {
  const id = pick([...model.rows.keys()], at)
  if (id === undefined) return
  await system.cancel(id)
  model.rows.delete(id)
}

/** Does something to one of the leased claims that there are. */
const toClaim =
  <T extends readonly unknown[]>(
    act: (model: LeaseModel, system: LeaseSystem, number: number, ...values: T) => Promise<void>,
  ) =>
  async (model: LeaseModel, system: LeaseSystem, at: number, ...values: T): Promise<void> => {
    const { length } = model.claims
    if (length > 0) await act(model, system, (at % length) + 1, ...values)
  }

/** Without a key any of them, as many as there are up to the limit; with one the first ones, slot by slot. */
function expectTaken(ids: readonly string[], slots: readonly Takeable[], limit: number, way: Way): void {
  if (way === 'unkeyed') {
    const may = slots.flatMap((slot) => slot.ids)
    expect(ids).toHaveLength(Math.min(limit, may.length))
    expect(may).toEqual(expect.arrayContaining([...ids]))
    return
  }
  const lines = slots.flatMap<string | undefined>((slot) => (slot.isLeft ? [undefined] : slot.ids))
  expect(ids).toEqual(lines.slice(0, limit).filter((id) => id !== undefined))
}

async function expectAgreement(model: LeaseModel, system: LeaseSystem): Promise<void> {
  const { rows, dead, evidence } = await system.look()
  expect(rows).toEqual([...model.rows.values()].sort((a, b) => Number(a.id) - Number(b.id)))
  expect(dead).toEqual(model.dead)
  expect(evidence).toEqual(model.evidence)
}
