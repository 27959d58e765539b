import { expect, test } from 'vitest'
import { Hold } from '../../../src/relay/hold.ts'

test('a hold doubles up to a second, and begins anew when there was none for two seconds', () => {
  const hold = new Hold(() => 1)
  let nowMs = 0
  const next = () => {
    const ms = hold.next(nowMs)
    nowMs += ms
    return ms
  }
  expect(Array.from({ length: 9 }, next)).toEqual([10, 20, 40, 80, 160, 320, 640, 1_000, 1_000])
  nowMs += 2_000
  expect(next()).toBe(1_000)
  nowMs += 2_001
  expect(next()).toBe(10)
})
