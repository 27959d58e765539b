import { expect } from 'vitest'
import type { LifeModel } from './life-model.ts'
import type { LifeSystem } from './life-system.ts'

/** Every message may be taken, each key's in order, and there are some if there may be. */
export function expectTaken(
  model: LifeModel,
  ids: readonly string[],
  { most, onePerSlot }: { readonly most: number; readonly onePerSlot: boolean },
): void {
  const takeable = model.takeable()
  expect(ids.length).toBeLessThanOrEqual(most)
  if (takeable.length > 0) expect(ids, `something of ${takeable.map(({ id }) => id)} is taken`).not.toEqual([])
  expect(
    takeable.map(({ id }) => id),
    'only what may be taken',
  ).toEqual(expect.arrayContaining([...ids]))
  const slots = ids.flatMap((id) => model.row(id).slot ?? [])
  if (onePerSlot) expect(slots, 'one of each slot').toHaveLength(new Set(slots).size)
  for (const [at, id] of ids.entries()) {
    const { key } = model.row(id)
    const before = takeable.filter((row) => key !== null && row.key === key && Number(row.id) < Number(id))
    expect(ids.slice(0, at), `those before ${id} of ${key}`).toEqual(
      expect.arrayContaining(before.map((row) => row.id)),
    )
  }
}

/** The views and the functions say what the model says. */
export async function expectAgreement(model: LifeModel, system: LifeSystem): Promise<void> {
  const { rows, dead, known } = await system.look()
  const expected = model.inOrder().map((row) => {
    const { id, key, priority, payload, tried, due, expires } = row
    return { id, state: model.stateOf(id), key, priority, payload, tried, due, expires, heldBy: model.heldBackBy(row) }
  })
  expect(rows).toEqual(expected)
  expect(dead).toEqual(model.dead)
  const pointers = [...model.dedupe.pointers].toSorted(([a], [b]) => (a < b ? -1 : 1))
  expect(known).toEqual(pointers.map(([key, pointer]) => ({ key, ...model.known(key, pointer) })))
  const ids = [...new Set(model.holders.flatMap((holder) => holder.ids))]
  expect(await system.states(ids)).toEqual(new Map(ids.map((id) => [id, model.stateOf(id)])))
}
