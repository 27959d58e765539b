import { describe, expect } from 'vitest'
import {
  claimFreeSlots,
  claimSlots,
  claimWholeQueue,
  type SlotPosition,
  WHOLE_QUEUE_SLOT,
} from '../../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { test as base, idsOf, keysOf, lockedIds, put } from '../../support/rows/claim-session.ts'
import { acked } from '../../support/rows/settled-rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

const test = base
  .extend('keys', ({ database }) => keysOf(database))
  .extend('slots', async ({ keys, queue, begin }) => {
    const { execute, commit } = await begin()
    await ensureSlots(execute, queue, [keys.slot, keys.otherSlot, WHOLE_QUEUE_SLOT])
    await commit()
    return [from(keys.slot), from(keys.otherSlot)] as const
  })

const WHOLE = from(WHOLE_QUEUE_SLOT)

describe('an ordered claim takes', () => {
  test('a slot after the other, each in order of id, whatever the priorities and due times', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    const [a, other, b, a2] = await put(database, queue, [
      { key: keys.same[0], dueInMs: -1 },
      { key: keys.other, priority: 0 },
      { key: keys.same[1], dueInMs: -9_000, priority: 0 },
      { key: keys.same[0], dueInMs: -5_000 },
    ])
    const { execute, rollBack } = await begin()
    expect(idsOf(await claimSlots(execute, queue, slots, 10))).toEqual([a, b, a2, other])
    await rollBack()
    expect(idsOf(await claimSlots(execute, queue, slots.toReversed(), 10))).toEqual([other, a, b, a2])
  })

  test('no message without a key, and none that is not due, which does not hold the others', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    const [, , due] = await put(database, queue, [{}, { key: keys.same[0], dueInMs: 60_000 }, { key: keys.same[0] }])
    const { execute } = await begin()
    expect(idsOf(await claimSlots(execute, queue, slots, 10))).toEqual([due])
  })

  test('what a floor leaves, the row at the floor included', async ({ database, queue, begin, keys, slots }) => {
    const ids = await put(database, queue, [{ key: keys.same[0] }, { key: keys.same[1] }, { key: keys.same[0] }])
    const { execute } = await begin()
    const floored = await claimSlots(execute, queue, [{ slot: keys.slot, id: ids[1]! }, slots[1]], 10)
    expect(idsOf(floored)).toEqual(ids.slice(1))
    expect([...floored.firstLive]).toEqual([[keys.slot, ids[1]]])
  })

  test('says where the live rows of its slots begin, also where they are held', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    const [held, free] = await put(database, queue, [{ key: keys.same[0], dueInMs: 60_000 }, { key: keys.same[1] }])
    const { execute } = await begin()
    const taken = await claimSlots(execute, queue, slots, 10)
    expect(idsOf(taken)).toEqual([free])
    expect([...taken.firstLive]).toEqual([[keys.slot, held]])
  })

  test('locks no slot that it does not need, and none without messages', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    await put(database, queue, [{ key: keys.same[0] }, { key: keys.same[1] }, { key: keys.other }])
    const { execute } = await begin()
    await claimSlots(execute, queue, [from(WHOLE_QUEUE_SLOT), ...slots], 2)
    expect(await lockedSlots(database, queue)).toEqual([keys.slot])
  })

  test('nothing of slots whose row is missing, because then nobody could be kept out', async ({
    database,
    queue,
    begin,
    keys,
  }) => {
    await put(database, queue, [{ key: keys.same[0] }])
    const { execute } = await begin()
    expect(await claimSlots(execute, queue, [from(keys.slot)], 10)).toMatchObject({
      rows: [],
      nowUs: expect.any(Number),
    })
  })
})

describe.for([
  [
    'a claim of free slots',
    (...[execute, queue, slots, limit, share]: Shared) =>
      claimFreeSlots(execute, queue, slots, limit, undefined, share),
  ],
  [
    'a claim of slots',
    (...[execute, queue, slots, limit, share]: Shared) =>
      claimSlots(execute, queue, slots, limit, [], undefined, {}, share),
  ],
] as const)('%s with a share of two takes', ([, by]) => {
  test('the first two messages of each slot, until it has enough', async ({ database, queue, begin, keys, slots }) => {
    const ids = await put(database, queue, [
      ...[{ key: keys.same[0] }, { key: keys.other }, { key: keys.same[1] }],
      ...[{ key: keys.same[0] }, { key: keys.other }, { key: keys.other }],
    ])
    const { execute, rollBack } = await begin()
    const places = async (limit: number) =>
      idsOf(await by(execute, queue, slots, limit, 2)).map((id) => ids.indexOf(id))
    expect(await places(10)).toEqual([0, 2, 1, 4])
    await rollBack()
    expect(await places(3)).toEqual([0, 2, 1])
    expect(await lockedIds(database, queue)).toHaveLength(3)
  })

  test('none of a slot behind a message that another session has locked', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    const ids = await put(database, queue, [...[0, 1, 2].map(() => ({ key: keys.same[0] })), { key: keys.other }])
    const [stranger, { execute }] = [await begin(), await begin()]
    await stranger.client.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [ids[0]])
    const taken = await by(execute, queue, slots, 10, 2)
    expect(idsOf(taken)).toEqual([ids[3]])
    expect(taken.missed).toMatchObject([{ id: ids[0], locked: true }])
  })
})

test('a claim with a share leaves out a held key, and takes as many others of its slot', async ({
  database,
  queue,
  begin,
  keys,
  slots,
}) => {
  const [held, other] = keys.same
  const ids = await put(database, queue, [
    ...[{ key: held, dueInMs: 60_000 }, { key: held }, { key: other }, { key: held }],
    ...[{ key: other }, { key: other }],
  ])
  const { execute, commit } = await begin()
  const untilUs = await dueUsOf(database, ids[0])
  await holdKeys(execute, queue, [{ slot: keys.slot, orderingKey: held, messageId: ids[0]!, untilUs }], 0)
  await commit()
  const taken = await claimSlots(execute, queue, slots, 10, [], undefined, {}, 2)
  expect(idsOf(taken)).toEqual([ids[2], ids[4]])
})

describe('a locked slot', () => {
  test('is skipped as a whole, with all its keys', async ({ database, queue, begin, keys, slots }) => {
    const [first, , , other] = await put(database, queue, [
      { key: keys.same[0] },
      { key: keys.same[0] },
      { key: keys.same[1] },
      { key: keys.other },
    ])
    const [one, two] = [await begin(), await begin()]
    expect(idsOf(await claimSlots(one.execute, queue, slots, 1))).toEqual([first])
    expect(idsOf(await claimSlots(two.execute, queue, slots, 10))).toEqual([other])
    await one.rollBack()
    expect(idsOf(await claimSlots((await begin()).execute, queue, slots, 1))).toEqual([first])
  })
})

describe('a held key', () => {
  test('is left out until its time, and its neighbours in the slot are not', async ({
    database,
    queue,
    begin,
    keys,
    slots,
  }) => {
    const [failed, next, neighbour] = await put(database, queue, [
      { key: keys.same[0], dueInMs: 3_000 },
      { key: keys.same[0] },
      { key: keys.same[1] },
    ])
    const holder = await begin()
    const untilUs = await dueUsOf(database, failed)
    await holdKeys(
      holder.execute,
      queue,
      [{ slot: keys.slot, orderingKey: keys.same[0], messageId: failed!, untilUs }],
      untilUs - 3_000_000,
    )
    await holder.commit()
    const { execute, rollBack } = await begin()
    expect(idsOf(await claimSlots(execute, queue, slots, 10))).toEqual([neighbour])
    await rollBack()
    await database.sql('SELECT pg_sleep_until($1)', [new Date(untilUs / 1_000 + 1)])
    expect(idsOf(await claimSlots(execute, queue, slots, 10))).toEqual([failed, next, neighbour])
  })
})

describe('a claim of the whole queue', () => {
  test('takes the messages without a key in order of id, whatever their priorities', async ({
    database,
    queue,
    begin,
    keys,
    slots: _slots,
  }) => {
    const [low, , high, , third] = await put(database, queue, [
      { priority: 9 },
      { key: keys.same[0] },
      { priority: 0 },
      { dueInMs: 60_000 },
      {},
    ])
    const [one, two] = [await begin(), await begin()]
    const taken = await claimWholeQueue(one.execute, queue, WHOLE, 2)
    expect(idsOf(taken)).toEqual([low, high])
    expect([...taken.firstLive]).toEqual([[WHOLE_QUEUE_SLOT, low]])
    expect(idsOf(await claimWholeQueue(two.execute, queue, WHOLE, 2))).toEqual([])
    await acked(one.execute, queue, idsOf(taken))
    await one.commit()
    await two.rollBack()
    expect(idsOf(await claimWholeQueue(two.execute, queue, { slot: WHOLE_QUEUE_SLOT, id: third! }, 2))).toEqual([third])
  })

  test('waits for a message that is held', async ({ database, queue, begin, slots: _slots }) => {
    const [failed] = await put(database, queue, [{ dueInMs: 60_000 }, {}])
    const { execute, commit } = await begin()
    const untilUs = await dueUsOf(database, failed)
    await holdKeys(execute, queue, [{ slot: WHOLE_QUEUE_SLOT, orderingKey: '', messageId: failed!, untilUs }], 0)
    await commit()
    expect(idsOf(await claimWholeQueue(execute, queue, WHOLE, 10))).toEqual([])
    expect(await lockedIds(database, queue)).toEqual([])
  })
})

type Shared = [execute: Execute, queue: string, slots: readonly SlotPosition[], limit: number, share: number]

function from(slot: number): SlotPosition {
  return { slot, id: '0' }
}

async function dueUsOf(database: TestDatabase, id: string | undefined): Promise<number> {
  const [row] = await database.sql<{ us: string }>(
    'SELECT (extract(epoch FROM due_at) * 1000000)::bigint::text AS us FROM sluice.message WHERE id = $1',
    [id],
  )
  return Number(row?.us)
}

/** The slots of a queue that somebody has locked, as another session sees it. */
async function lockedSlots(database: TestDatabase, queue: string): Promise<readonly number[]> {
  const rows = await database.sql<{ slot: number }>(
    `WITH free AS MATERIALIZED (SELECT s.slot FROM sluice.slot s WHERE s.queue = $1 FOR NO KEY UPDATE SKIP LOCKED)
     SELECT s.slot FROM sluice.slot s WHERE s.queue = $1 AND NOT EXISTS (SELECT FROM free WHERE free.slot = s.slot)`,
    [queue],
  )
  return rows.map(({ slot }) => slot)
}
