import { describe, expect } from 'vitest'
import {
  claimFreeSlots,
  claimSlots,
  type OrderedClaim,
  type SlotPosition,
} from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { rewriting } from '../../support/permutations/rewrite.ts'
import { test as base, type ClaimSession, idsOf, keysOf, put, untilBlocked } from '../../support/rows/claim-session.ts'
import { acked } from '../../support/rows/settled-rows.ts'
import { postponeMessages } from '../../support/rows/write-settled.ts'
import { PAUSED_CLAIM } from '../../support/twins/statements.ts'

interface Slots {
  readonly slots: readonly SlotPosition[]
  /** The message of the first slot. */
  readonly first: string
  /** Two messages of a key in the second. */
  readonly ids: readonly [string, string]
  readonly key: string
  readonly slot: number
}

const test = base
  .extend('two', async ({ database, queue, begin }): Promise<Slots> => {
    const keys = await keysOf(database)
    const key = keys.same[0]
    const [first, second, third] = await put(database, queue, [{ key: keys.other }, { key }, { key }])
    const { execute, commit } = await begin()
    await ensureSlots(execute, queue, [keys.slot, keys.otherSlot])
    await commit()
    const slots = [keys.otherSlot, keys.slot].map((slot) => ({ slot, id: '0' }))
    return { slots, first: first!, ids: [second!, third!], key, slot: keys.slot }
  })
  /** Sends a claim, and resolves when it has its snapshot, and no lock. */
  .extend('look', async ({ database, queue, begin, two: { slots } }) => async (by: typeof claimFreeSlots) => {
    const [claimer, gate] = [await begin(), await begin()]
    await gate.client.query('SELECT pg_advisory_xact_lock($1::integer, hashtext($2))', [claimer.pid, queue])
    const claiming: Promise<OrderedClaim> = by(rewriting(claimer.execute, PAUSED_CLAIM), queue, slots, 10)
    await untilBlocked(database, claimer, 'the claim to stop at its pause')
    return async () => {
      await gate.rollBack()
      return claiming
    }
  })

const claimAll: typeof claimFreeSlots = (execute, queue, slots, limit) => claimSlots(execute, queue, slots, limit)
const CLAIMS = [
  ['a claim', claimAll],
  ['a claim of free slots', claimFreeSlots],
] as const

/** What another batch commits meanwhile is younger than the snapshot. */
describe.for(CLAIMS)('between the snapshot of %s and its lock of a slot', ([, by]) => {
  test('a hold that another batch commits is honoured', async ({ queue, begin, two, look }) => {
    const { first, slot, ids } = two
    const go = await look(by)
    const batch = await begin()
    await takeFirst(batch.execute, queue, two)
    const dueUs = Date.now() * 1_000 + 60_000_000
    await postponeMessages(batch.execute, queue, [{ id: ids[0], dueUs, attempt: 1, error: 'broken' }], 0)
    await holdKeys(batch.execute, queue, [{ slot, orderingKey: two.key, messageId: ids[0], untilUs: dueUs }], 0)
    await batch.commit()
    expect(idsOf(await go())).toEqual([first])
  })

  test('messages that another batch removes are not claimed again, and those behind them are', async ({
    queue,
    begin,
    two,
    look,
  }) => {
    const { first, ids } = two
    const go = await look(by)
    const batch = await begin()
    await takeFirst(batch.execute, queue, two)
    await acked(batch.execute, queue, [ids[0]])
    await batch.commit()
    const taken = await go()
    expect(idsOf(taken)).toEqual([first, ids[1]])
    expect(taken.missed).toMatchObject([{ id: ids[0], locked: null }])
  })

  test('a slot that another batch still has is skipped', async ({ queue, begin, two, look }) => {
    const go = await look(by)
    await takeFirst((await begin()).execute, queue, two)
    expect(idsOf(await go())).toEqual([two.first])
  })

  test('a message that an operator removes is left out', async ({ database, queue, two, look }) => {
    const go = await look(by)
    await database.sql('SELECT sluice.cancel($1, $2)', [queue, two.first])
    expect(idsOf(await go())).toEqual(two.ids)
  })

  test('a message that a session locks is left out, with the later one of its key', async ({ begin, two, look }) => {
    const go = await look(by)
    await locks(await begin(), two.ids[0])
    const taken = await go()
    expect(idsOf(taken)).toEqual([two.first])
    expect(taken.missed).toEqual([{ slot: two.slot, id: two.ids[0], key: two.key, locked: true }])
    expect(taken.rows).toHaveLength(1)
  })

  test('a message that a session writes without its slot is left out, with the later one of its key', async ({
    database,
    queue,
    two,
    look,
  }) => {
    const go = await look(by)
    await database.sql(`UPDATE sluice.message SET headers = '{"a": "b"}' WHERE queue = $1 AND id = $2`, [
      queue,
      two.ids[0],
    ])
    const taken = await go()
    // The server may have followed the row to its new version.
    expect([[two.first], [two.first, ...two.ids]]).toContainEqual(idsOf(taken))
    if (taken.rows.length === 1) expect(taken.missed).toMatchObject([{ id: two.ids[0], locked: false }])
  })
})

describe.for(CLAIMS)('behind a message that a session has locked, %s', ([, by]) => {
  test('takes earlier ones of its key, and those of other keys of its slot', async ({ database, queue, begin }) => {
    const { slot, same } = await keysOf(database)
    const [a, b, c] = same
    const ids = await put(database, queue, [{ key: a }, { key: b }, { key: a }, { key: a }, { key: c }, { key: b }])
    const { execute } = await begin()
    await ensureSlots(execute, queue, [slot])
    await locks(await begin(), ids[2]!)
    const taken = await by(execute, queue, [{ slot, id: '0' }], 10)
    expect(idsOf(taken)).toEqual([ids[0], ids[1], ids[4], ids[5]])
    expect(taken.missed).toEqual([{ slot, id: ids[2], key: a, locked: true }])
  })
})

test('a claim that leaves a key out takes none of its messages, and as many of others as it may', async ({
  database,
  queue,
  begin,
}) => {
  const { slot, same } = await keysOf(database)
  const [a, b] = same
  const ids = await put(database, queue, [...Array.from({ length: 20 }, () => ({ key: a })), { key: b }, { key: b }])
  const { execute } = await begin()
  await ensureSlots(execute, queue, [slot])
  const slots = [{ slot, id: '0' }]
  const taken = await claimSlots(execute, queue, slots, 2, [], undefined, { [slot]: { [a]: '' } })
  expect(idsOf(taken)).toEqual(ids.slice(20))
})

async function takeFirst(execute: Execute, queue: string, { slots, ids }: Slots): Promise<void> {
  expect(idsOf(await claimSlots(execute, queue, slots.slice(1), 1))).toEqual([ids[0]])
}

async function locks({ client }: ClaimSession, id: string): Promise<void> {
  await client.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [id])
}
