import { expect, test } from 'vitest'
import { LeftOut } from '../../src/claim/left-out.ts'

const missed = (slot: number, key: string, locked: boolean | null = true) => ({ slot, id: '1', key, locked })

function leftOut() {
  const clock = { nowMs: 0 }
  return { clock, left: new LeftOut(() => clock.nowMs) }
}

test('keys of locked messages are left out for a second, each from when it was missed', () => {
  const { clock, left } = leftOut()
  expect([left.keys, left.againMs]).toEqual([{}, null])
  expect(left.learn([missed(3, 'a'), missed(4, 'b')], 0)).toBe(true)
  clock.nowMs = 600
  left.learn([missed(3, 'c')], 10)
  expect([left.keys, left.againMs]).toEqual([{ 3: { a: '', c: '' }, 4: { b: '' } }, 400])
  clock.nowMs = 1_000
  expect([left.keys, left.againMs]).toEqual([{ 3: { c: '' } }, 600])
  // What is over is not claimed again for ever.
  clock.nowMs = 1_600
  expect([left.againMs, left.keys]).toEqual([null, {}])
})

test('a message that has been moved or is gone leaves no key out, and the claim is made again', () => {
  const { left } = leftOut()
  expect(left.learn([missed(3, 'a', false), missed(3, 'b', null)], 0)).toBe(true)
  expect(left.keys).toEqual({})
  expect(left.learn([], 0)).toBe(false)
})

test('claims that find nothing but locked messages end after 64 in a row', () => {
  const { left } = leftOut()
  for (let claims = 0; claims < 64; claims += 1) expect(left.learn([missed(claims, 'a')], 0)).toBe(true)
  expect(left.learn([missed(64, 'a')], 0)).toBe(false)
  left.learn([missed(65, 'a')], 1)
  expect(left.learn([missed(66, 'a')], 0)).toBe(true)
})
