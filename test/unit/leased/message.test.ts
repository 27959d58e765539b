import { expect, test } from 'vitest'
import { leasedMessage } from '../../support/rows/leased-message.ts'

test('a cancellation is heard also by what begins to listen after it', () => {
  const leased = leasedMessage('1')
  leased.cancel()
  let heard = 0
  leased.hear({
    lost: () => undefined,
    cancelled: () => {
      heard += 1
    },
  })
  expect([heard, leased.isCancelled]).toEqual([1, true])
})

test.each([
  ['has committed', 'commit'],
  ['has locked its row', 'lock'],
] as const)('a message whose own transaction %s is not cancelled, and not renewed', (_, state) => {
  const leased = leasedMessage('1')
  const later = performance.now() + leased.leaseMs
  expect(leased.isOld(later)).toBe(true)
  leased[state]()
  leased.cancel()
  expect([leased.isOld(later), leased.isCancelled]).toEqual([false, false])
})
