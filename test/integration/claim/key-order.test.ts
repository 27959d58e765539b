import { describe, expect, inject } from 'vitest'
import { Floors } from '../../../src/claim/floors.ts'
import { claimSlots, claimWholeQueue, WHOLE_QUEUE_SLOT } from '../../../src/table/claim/claim-ordered.ts'
import { MOST_WALKED } from '../../../src/table/claim/claim-slots.ts'
import { type Lease, leaseOf } from '../../../src/table/claim/lease.ts'
import { ensureSlots } from '../../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../../src/table/settle/around.ts'
import { test as base, type ClaimSession, idsOf, keysOf, lockedIds, put } from '../../support/rows/claim-session.ts'
import { deadLetterMessages } from '../../support/rows/write-settled.ts'
import type { TestDatabase } from '../../support/servers/database.ts'

const LEASE: Lease = { lease: leaseOf(7, 1), ms: 600_000, serverVersion: inject('serverVersion') }

let batchId = 100
const newLease = (): Lease => ({ ...LEASE, lease: leaseOf(7, ++batchId) })

const withKeys = base.extend('keys', async ({ database, queue, begin }) => {
  const keys = await keysOf(database)
  const { execute, commit } = await begin()
  await ensureSlots(execute, queue, [keys.slot, keys.otherSlot, WHOLE_QUEUE_SLOT])
  await commit()
  return keys
})

const sqlOf = ({ client }: ClaimSession) => ({
  sql: async <Row>(text: string, params: readonly unknown[] = []) =>
    (await client.query(text, [...params])).rows as Row[],
})

/** Two writers: `late` has the lower id, because `early`'s transaction wrote something else first, and is still open. */
const test = withKeys.extend('writers', async ({ queue, begin, keys }) => {
  const [first, second] = [await begin(), await begin()]
  return async (key: string | null = keys.same[0]) => {
    await first.client.query('CREATE TEMPORARY TABLE order_placed ON COMMIT DROP AS SELECT 1')
    const [late] = await put(sqlOf(second), queue, [{ key }])
    const [early] = await put(sqlOf(first), queue, [{ key }])
    await first.commit()
    return { late, early, commitLate: second.commit }
  }
})

describe('the order of a key survives', () => {
  test('a transaction that began to write before another, and enqueued after it', async ({
    queue,
    begin,
    keys,
    writers,
  }) => {
    const look = lookAt(await begin(), queue, keys.slot)
    const { late, early, commitLate } = await writers()
    for (let looks = 0; looks < 3; looks += 1) expect(await look()).toEqual([early])
    await commitLate()
    expect(await look()).toEqual([late, early])
  })

  test('the same, where the whole queue is in order', async ({ queue, begin, writers }) => {
    const look = lookAt(await begin(), queue, WHOLE_QUEUE_SLOT)
    const { late, early, commitLate } = await writers(null)
    for (let looks = 0; looks < 3; looks += 1) expect(await look()).toEqual([early])
    await commitLate()
    expect(await look()).toEqual([late, early])
  })

  test('the same, where the claim is not the first in its transaction to lock', async ({
    queue,
    begin,
    keys,
    writers,
  }) => {
    const consumer = await begin()
    const look = lookAt(consumer, queue, keys.slot)
    // As a claim does that found a slot whose keys are all held, before the claimer sweeps.
    await consumer.client.query('SELECT FROM sluice.slot s WHERE s.queue = $1 AND s.slot = $2 FOR NO KEY UPDATE', [
      queue,
      keys.otherSlot,
    ])
    const { late, early, commitLate } = await writers()
    for (let looks = 0; looks < 3; looks += 1) expect(await look()).toEqual([early])
    await commitLate()
    expect(await look()).toEqual([late, early])
  })

  test('a clock that goes on between two readings', async ({ database, queue, begin, keys }) => {
    const key = keys.same[0]
    const [failed] = await put(database, queue, [{ key }, { key }])
    const consumer = await begin()
    const nextSecondUs = (Math.floor(Date.now() / 1_000) + 1) * 1_000_000
    const untilUs = nextSecondUs + 500_000
    await database.sql(
      `UPDATE sluice.message SET due_at = timestamptz 'epoch' + $2::bigint * interval '1 microsecond' WHERE id = $1`,
      [failed, untilUs],
    )
    await holdKeys(consumer.execute, queue, [{ slot: keys.slot, orderingKey: key, messageId: failed!, untilUs }], 0)
    await consumer.commit()

    await playClock(consumer, nextSecondUs)
    const floor = { slot: keys.slot, id: '0' }
    // The failed message becomes due, and its key free, between the first reading and the second.
    expect(idsOf(await claimSlots(consumer.execute, queue, [floor], 10))).not.toHaveLength(1)
  })
})

describe('one of a key at a time', () => {
  test('is taken of those that a batch has put off together, the first one first', async ({
    database,
    queue,
    begin,
    keys: { slot, same },
  }) => {
    const [first, second] = await put(database, queue, [{ key: same[0] }, { key: same[0] }])
    await database.sql('UPDATE sluice.message SET lease = 0 WHERE queue = $1', [queue])
    const session = await begin()
    const take = () => claimSlots(session.execute, queue, [{ slot, id: '0' }], 10)
    expect(idsOf(await take())).toEqual([first])
    const heldBy = 'SELECT held_by FROM sluice.messages WHERE queue = $1 ORDER BY id'
    expect(await database.sql(heldBy, [queue])).toEqual([{ held_by: null }, { held_by: first }])
    await session.rollBack()
    await database.sql(`UPDATE sluice.message SET due_at = clock_timestamp() + interval '1 h' WHERE id = $1`, [first])
    expect(idsOf(await take())).toEqual([])
    await database.sql('DELETE FROM sluice.message WHERE id = $1', [first])
    await session.rollBack()
    expect(idsOf(await take())).toEqual([second])
  })

  test('is in hand also where a message was redriven below the floor of a process', async ({
    database,
    queue,
    begin,
    keys: { slot, same },
  }) => {
    const [redriven, later] = await put(database, queue, [{ key: same[0] }, { key: same[0] }])
    const [another, process] = [await begin(), await begin()]
    const claimFrom = (id: string, { execute }: ClaimSession, lease?: Lease) =>
      claimSlots(execute, queue, [{ slot, id }], 10, [], lease)
    expect(idsOf(await claimFrom('0', process))[0]).toBe(redriven)
    const dead = [{ id: redriven!, attempt: 1, reason: 'broken', error: null }]
    await deadLetterMessages(process.execute, queue, dead)
    await process.commit()
    await database.sql('SELECT sluice.redrive($1)', [queue])
    expect(idsOf(await claimFrom('0', another, LEASE))).toEqual([redriven])
    await another.commit()
    expect(idsOf(await claimFrom(later!, process))).toEqual([])
  })
})

describe('a claim under a lease takes of a slot', () => {
  test('one message of each key, in order, whether a key of it is in hand or not', async ({
    queue,
    begin,
    database,
    keys,
  }) => {
    const [a, b, c] = keys.same
    const put5 = [{ key: a }, { key: a }, { key: b }, { key: a }, { key: b }]
    const [firstA, secondA, firstB] = await put(database, queue, put5)
    const { execute, commit } = await begin()
    const take = () => claimSlots(execute, queue, [{ slot: keys.slot, id: '0' }], 10, [], newLease())
    expect(idsOf(await take())).toEqual([firstA, firstB])
    expect(await lockedIds(database, queue)).toEqual([firstA, firstB])
    await commit()
    const [firstC] = await put(database, queue, [{ key: c }, { key: c }])
    expect(idsOf(await take())).toEqual([firstC])
    await commit()
    await database.sql('DELETE FROM sluice.message WHERE id = $1', [firstA])
    expect(idsOf(await take())).toEqual([secondA])
  })

  test('eight keys at most, and no more than it may take in all', async ({
    queue,
    begin,
    database,
    keys: { slot },
  }) => {
    const nine = await database.sql<{ key: string }>(
      `SELECT k.key FROM (SELECT 'many ' || n AS key FROM generate_series(1, 20000) n) k
       WHERE hashtextextended(k.key COLLATE "C", 0) & 255 = $1 LIMIT 9`,
      [slot],
    )
    const ids = await put(database, queue, nine)
    const take = async (limit: number) => {
      const { execute, rollBack } = await begin()
      const taken = idsOf(await claimSlots(execute, queue, [{ slot, id: '0' }], limit, [], newLease()))
      const locked = await lockedIds(database, queue)
      await rollBack()
      return [taken, locked]
    }
    expect(await take(100)).toEqual([ids.slice(0, 8), ids.slice(0, 8)])
    expect(await take(3)).toEqual([ids.slice(0, 3), ids.slice(0, 3)])
  })
})

test('a claim under a lease finds a message behind more delayed ones than it walks where a key is held', async ({
  queue,
  begin,
  database,
  keys,
}) => {
  const delayed = Array.from({ length: MOST_WALKED }, () => ({ key: keys.same[0]!, dueInMs: 600_000 }))
  const ids = await put(database, queue, [...delayed, { key: keys.same[1]! }])
  const { execute } = await begin()
  const taken = await claimSlots(execute, queue, [{ slot: keys.slot, id: '0' }], 10, [], newLease())
  expect(idsOf(taken)).toEqual(ids.slice(-1))
})

describe('a claim in slots locks what it takes and no more', () => {
  test('of one slot with a message that is due again', async ({ database, queue, begin, keys }) => {
    const [open, again] = await put(database, queue, [{ key: keys.same[0] }, { key: keys.same[1] }])
    await putOff(database, again!)
    const { execute, commit } = await begin()
    const floors = [{ slot: keys.slot, id: '0' }]
    expect(idsOf(await claimSlots(execute, queue, floors, 1))).toEqual([open])
    expect(await lockedIds(database, queue)).toEqual([open])
    await commit()
    expect(idsOf(await claimSlots(execute, queue, floors, 1, [], { ...LEASE, lease: leaseOf(7, 2) }))).toEqual([open])
    expect(await lockedIds(database, queue)).toEqual([open])
  })

  test('of several slots with such messages', async ({ database, queue, begin, keys }) => {
    const [first, second, third] = await put(database, queue, [
      { key: keys.same[0] },
      { key: keys.same[1] },
      { key: keys.other },
    ])
    for (const id of [first, second, third]) await putOff(database, id!)
    const { execute } = await begin()
    const floors = [keys.otherSlot, keys.slot].map((slot) => ({ slot, id: '0' }))
    expect(idsOf(await claimSlots(execute, queue, floors, 2))).toEqual([third, first])
    expect(await lockedIds(database, queue)).toEqual([first, third])
  })

  test('and goes on behind those that somebody has locked', async ({ database, queue, begin, keys }) => {
    const [locked, again] = await put(database, queue, [{ key: keys.same[0] }, { key: keys.same[1] }])
    for (const id of [locked, again]) await putOff(database, id!)
    const [client, { execute }] = [await begin(), await begin()]
    await client.client.query('SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE', [queue, locked])
    expect(idsOf(await claimSlots(execute, queue, [{ slot: keys.slot, id: '0' }], 1))).toEqual([again])
  })
})

/** As a settlement leaves a message with a key that was leased. */
async function putOff(database: Pick<TestDatabase, 'sql'>, id: string): Promise<void> {
  await database.sql('UPDATE sluice.message SET lease = 0 WHERE id = $1', [id])
}

/** Claims of one slot again and again, each in a transaction of its own, with the floors of one process. */
function lookAt(consumer: ClaimSession, queue: string, slot: number): () => Promise<readonly string[]> {
  const floors = new Floors()
  floors.learn([], slot === WHOLE_QUEUE_SLOT ? [] : [slot])
  return async () => {
    const taken =
      slot === WHOLE_QUEUE_SLOT
        ? await claimWholeQueue(consumer.execute, queue, floors.wholeQueue(false), 10)
        : await claimSlots(consumer.execute, queue, floors.slots(false), 10)
    floors.observed(taken)
    await consumer.rollBack()
    return idsOf(taken)
  }
}

/** Lets this session's clock show `startUs` when it is first read, and a second more each time. */
async function playClock({ client }: ClaimSession, startUs: number): Promise<void> {
  await client.query(`
    CREATE SCHEMA played;
    CREATE SEQUENCE played.reading START 0 MINVALUE 0;
    CREATE FUNCTION played.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
      SELECT timestamptz 'epoch' + ${startUs} * interval '1 microsecond' + nextval('played.reading') * interval '1 second'
    $$;
    SET LOCAL search_path = played, pg_catalog`)
}
