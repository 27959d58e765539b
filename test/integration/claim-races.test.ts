import { describe, expect } from 'vitest'
import { claimSlots, type SlotPosition } from '../../src/table/claim/claim-ordered.ts'
import { ensureSlots } from '../../src/table/claim/queue-scan.ts'
import { holdKeys } from '../../src/table/settle/around.ts'
import { test as base, idsOf, keysOf, put, untilBlocked } from '../support/rows/claim-session.ts'
import { acked } from '../support/rows/settled-rows.ts'
import { postponeMessages } from '../support/rows/write-settled.ts'

/** Two slots: `first` with a message that an operator has locked, and `second` with the messages `ids` of one key. */
const test = base.extend('stopped', async ({ database, queue, begin }) => {
  const keys = await keysOf(database)
  const [locked, ...ids] = await put(database, queue, [
    { key: keys.other },
    { key: keys.same[0] },
    { key: keys.same[0] },
  ])
  const operator = await begin()
  await ensureSlots(operator.execute, queue, [keys.slot, keys.otherSlot])
  await operator.commit()
  await operator.client.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [locked])
  const slots: readonly SlotPosition[] = [
    { slot: keys.otherSlot, id: '0' },
    { slot: keys.slot, id: '0' },
  ]
  return { operator, slots, locked: locked!, ids, key: keys.same[0], slot: keys.slot }
})

/**
 * The claim has its snapshot and has locked the first slot; it waits for the operator before it comes to the second.
 * What another batch commits until then is younger than the snapshot.
 */
describe('between the snapshot of a claim and its lock of a slot', () => {
  test('a hold that another batch commits is honoured', async ({ database, queue, begin, stopped }) => {
    const { operator, slots, locked, ids, key, slot } = stopped
    const [batch, claimer] = [await begin(), await begin()]
    expect(idsOf(await claimSlots(batch.execute, queue, slots.slice(1), 1))).toEqual([ids[0]])
    const claiming = claimSlots(claimer.execute, queue, slots, 10)
    await untilBlocked(database, claimer, 'the claim to wait for the operator')
    const dueUs = Date.now() * 1_000 + 60_000_000
    await postponeMessages(batch.execute, queue, [{ id: ids[0]!, dueUs, attempt: 1, error: 'broken' }], 0)
    await holdKeys(batch.execute, queue, [{ slot, orderingKey: key, messageId: ids[0]!, untilUs: dueUs }], 0)
    await batch.commit()
    await operator.rollBack()
    expect(idsOf(await claiming)).toEqual([locked])
  })

  test('messages that another batch removes are not claimed again, and those behind them are', async ({
    database,
    queue,
    begin,
    stopped,
  }) => {
    const { operator, slots, locked, ids } = stopped
    const [batch, claimer] = [await begin(), await begin()]
    await claimSlots(batch.execute, queue, slots.slice(1), 1)
    const claiming = claimSlots(claimer.execute, queue, slots, 10)
    await untilBlocked(database, claimer, 'the claim to wait for the operator')
    await acked(batch.execute, queue, [ids[0]!])
    await batch.commit()
    await operator.rollBack()
    expect(idsOf(await claiming)).toEqual([locked, ids[1]])
  })

  test('a slot that another batch still has is skipped', async ({ database, queue, begin, stopped }) => {
    const { operator, slots, locked } = stopped
    const [batch, claimer] = [await begin(), await begin()]
    const claiming = claimSlots(claimer.execute, queue, slots, 10)
    await untilBlocked(database, claimer, 'the claim to wait for the operator')
    await claimSlots(batch.execute, queue, slots.slice(1), 1)
    await operator.rollBack()
    expect(idsOf(await claiming)).toEqual([locked])
  })

  test('a message that an operator removes is left out', async ({ database, queue, begin, stopped }) => {
    const { operator, slots, locked, ids } = stopped
    const claimer = await begin()
    const claiming = claimSlots(claimer.execute, queue, slots, 10)
    await untilBlocked(database, claimer, 'the claim to wait for the operator')
    await operator.client.query('DELETE FROM sluice.message WHERE id = $1', [locked])
    await operator.commit()
    expect(idsOf(await claiming)).toEqual(ids)
  })
})
