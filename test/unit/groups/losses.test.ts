import { expect, test } from 'vitest'
import { groupLostEvents } from '../../../src/errors.ts'
import { Losses } from '../../../src/modes/losses.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'

test('what a group has lost is reported once, until it is more or the group has been moved', () => {
  const reported: SluiceEvent[] = []
  const losses = new Losses('orders:billing', (event) => reported.push(event))
  const fail = (to: number) => losses.report(groupLostEvents('orders', 'billing', 1, to), 100)
  fail(5)
  fail(5)
  expect(reported).toMatchObject([{ kind: 'group.lostEvents', error: { code: 'GROUP_LOST_EVENTS' } }])
  fail(9)
  expect(reported).toHaveLength(2)
  losses.claimed()
  fail(9)
  expect(reported).toHaveLength(3)
})

test('other claims that fail are each reported', () => {
  const reported: SluiceEvent[] = []
  const losses = new Losses('orders', (event) => reported.push(event))
  for (const _ of [1, 2]) losses.report(new Error('out of reach'), 100)
  expect(reported).toHaveLength(2)
})
