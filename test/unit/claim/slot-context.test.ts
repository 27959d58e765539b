import { expect, test } from 'vitest'
import { slotContextOf, withSlots } from '../../../src/table/claim/slot-context.ts'

const CLAIM = '1700000000000000 f 12 1700000000000000 7/8'

test('what a line says of its slot comes behind what it says of the claim', () => {
  expect(slotContextOf({ context: `${CLAIM} 3 -7 t 10 10:12:10,11 12` })).toEqual({
    ...{ slot: 3, firstLive: '-7', anyHeld: true, xmin: '10', snapshot: '10:12:10,11', xid: '12' },
  })
})

test('a server that cannot tell whether it is the same leaves out nothing else', () => {
  expect(slotContextOf({ context: '1 f 12 1  3 7 f 10 10:10:' })).toEqual({
    ...{ slot: 3, firstLive: '7', anyHeld: false, xmin: '10', snapshot: '10:10:', xid: undefined },
  })
})

test('a line without a slot has none, and lines of a slot have the same', () => {
  const [one, other] = [{ context: `${CLAIM} 3 7 f 10 10:10: 12` }, { context: `${CLAIM} 4 8 f 10 10:10: 12` }]
  expect([...withSlots([{ context: CLAIM }])]).toEqual([])
  const slots = [...withSlots([one, { ...one }, other])].map(([, slot]) => slot)
  expect(slots.map(({ slot }) => slot)).toEqual([3, 3, 4])
  expect(slots[1]).toBe(slots[0])
})
