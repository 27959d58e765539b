import { expect } from 'vitest'
import {
  cancelMessage,
  changeMessage,
  clearSome,
  type MessageAddress,
  rescheduleMessage,
} from '../../../src/table/operate/messages/change-message.ts'
import type { LifeModel, LifeRow } from './life-model.ts'
import type { LifeSystem } from './life-system.ts'
import { pick } from './model-steps.ts'

const HOUR_MS = 3_600_000

/** One of the messages that were ever there; more often one with a past, which other messages may depend on. */
function anyId(model: LifeModel, at: number): string | undefined {
  const rows = model.inOrder()
  const past = rows.filter(
    (row) => row.tried || row.lease !== null || row.locked !== undefined || row.dedupeKey !== null,
  )
  const holding = rows.filter((row) => model.holds.of(row)?.id === row.id)
  const special = [
    ...rows.filter((row) => model.hasExpired(row)),
    ...holding,
    ...holding.filter((row) => row.lease === null),
  ]
  const gone = [...model.dead, ...model.holders.flatMap(({ ids }) => ids)].filter((id) => !model.rows.has(id))
  return pick(
    [...[...special, ...special, ...special, ...special, ...past, ...rows].map(({ id }) => id), ...gone.slice(-2)],
    at,
  )
}

/** Whom an operation is for: a message by its number, or those that a dedupe key stands for. */
export type By = 'id' | 'A' | 'B'

interface Meant {
  readonly address: MessageAddress
  /** The newest first. */
  readonly ids: readonly [string, ...string[]]
}

function meant(model: LifeModel, at: number, by: By): Meant | undefined {
  if (by === 'id') {
    const id = anyId(model, at)
    return id === undefined ? undefined : { address: { id, dedupeKey: null }, ids: [id] }
  }
  const pointer = model.dedupe.pointers.get(by)
  if (pointer === undefined) return undefined
  const { messageId, runningId } = pointer
  const ids = runningId === null ? ([messageId] as const) : ([messageId, runningId] as const)
  return { address: { id: null, dedupeKey: by }, ids }
}

/** The newest of those that are there, or else of those that are dead. */
function newest(model: LifeModel, { ids }: Meant): string {
  return ids.find((id) => model.rows.has(id)) ?? (model.dead.has(ids[0]) ? ids[0] : (ids[1] ?? ids[0]))
}

export async function cancel(model: LifeModel, system: LifeSystem, at: number, by: By): Promise<void> {
  const of = meant(model, at, by)
  if (of === undefined) return
  const [newer, ...older] = of.ids.map((id) => model.cancel(id))
  const before = older.find(({ result }) => result !== 'nothing' || newer?.state === 'unknown')
  expect(await cancelMessage(system.execute, system.queue, of.address)).toEqual(before ?? newer)
}

export async function change(
  model: LifeModel,
  system: LifeSystem,
  at: number,
  by: By,
  what: 'payload' | 'priority' | 'ttl',
) {
  const of = meant(model, at, by)
  if (of === undefined) return
  const id = newest(model, of)
  const given = { payload: { payload: '"changed"' }, priority: { priority: 1 }, ttl: { ttlMs: 2 * HOUR_MS } }[what]
  const write = (row: LifeRow) => {
    if (what === 'payload') row.payload = 'changed'
    if (what === 'priority') row.priority = 1
    if (what === 'ttl') row.expires = row.due + 2 * 60
  }
  expect(await changeMessage(system.execute, system.queue, of.address, given)).toEqual(model.change(id, write))
}

/** After so many hours; 0: it is to run now. */
export async function reschedule(
  model: LifeModel,
  system: LifeSystem,
  at: number,
  by: By,
  after: number,
): Promise<void> {
  const of = meant(model, at, by)
  if (of === undefined) return
  const id = newest(model, of)
  const to = { delayMs: after * HOUR_MS, dueAt: null }
  expect(await rescheduleMessage(system.execute, system.queue, of.address, to)).toEqual(model.reschedule(id, after))
}

export async function clear(model: LifeModel, system: LifeSystem, by: string, key: string | null): Promise<void> {
  const state = by === 'all' || by === 'key' ? null : by
  const orderingKey = by === 'key' ? key : null
  const none = { type: null, tenant: null, enqueuedBefore: null, enqueuedAfter: null, dryRun: false }
  const cleared = await clearSome(system.execute, system.queue, null, { ...none, state, orderingKey })
  const matches = (row: LifeRow) =>
    (state === null || model.stateOf(row.id) === state) && (orderingKey === null || row.key === orderingKey)
  expect(cleared.count).toBe(model.clear(matches))
}
