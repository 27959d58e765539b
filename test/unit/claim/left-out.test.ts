import { expect, test } from 'vitest'
import { LeftOut } from '../../../src/claim/left-out.ts'

const missed = (slot: number, key: string, locked: boolean | null = true) => ({ slot, id: '1', key, locked })

function leftOut() {
  const clock = { nowMs: 0 }
  return { clock, left: new LeftOut(() => clock.nowMs) }
}

test('keys of locked messages are left out for a second or so, each from when it was missed', () => {
  const { clock, left } = leftOut()
  expect([left.keys, left.againMs()]).toEqual([{}, null])
  expect(left.learn([missed(3, 'a'), missed(4, 'b')], 0)).toBe(true)
  clock.nowMs = 600
  left.learn([missed(3, 'c')], 10)
  expect([left.keys, left.againMs()]).toEqual([{ 3: { a: '', c: '' }, 4: { b: '' } }, 650])
  clock.nowMs = 1_250
  expect([left.keys, left.againMs()]).toEqual([{ 3: { c: '' } }, 500])
  clock.nowMs = 1_750
  expect([left.keys, left.againMs()]).toEqual([{}, null])
})

test('a key whose time has ended since the last claim is claimed again at once, and not for ever', () => {
  const { clock, left } = leftOut()
  left.learn([missed(3, 'a')], 0)
  expect(left.keys).toEqual({ 3: { a: '' } })
  clock.nowMs = 1_250
  left.learn([], 0)
  expect([left.againMs(), left.againMs(), left.keys]).toEqual([0, null, {}])
})

test('the more keys are left out, the longer, up to half a minute', () => {
  const { clock, left } = leftOut()
  const timeOfTheLastOf = (count: number) => {
    clock.nowMs += 60_000
    for (let at = 0; at < count; at += 1) left.learn([missed(at % 256, `key ${at}`)], 0)
    clock.nowMs += 1_250
    for (let waited = 1_250; ; waited += 250, clock.nowMs += 250) if (Object.keys(left.keys).length === 0) return waited
  }
  expect([1, 100, 500, 2_000].map(timeOfTheLastOf)).toEqual([1_250, 6_000, 26_000, 30_000])
})

test('a message that has been moved or is gone leaves no key out, and the claim is made again', () => {
  const { left } = leftOut()
  expect(left.learn([missed(3, 'a', false), missed(3, 'b', null)], 0)).toBe(true)
  expect(left.keys).toEqual({})
  expect(left.learn([], 0)).toBe(false)
})

test('claims go on while they find more locked messages, up to 10,000 keys', () => {
  const { left } = leftOut()
  const ten = (at: number) => Array.from({ length: 10 }, (_, of) => missed(at % 256, `key ${at} ${of}`))
  for (let claims = 0; claims < 999; claims += 1) expect(left.learn(ten(claims), 0)).toBe(true)
  expect(left.learn(ten(999), 0)).toBe(false)
})

test('claims that take nothing end after 10,000 in a row', () => {
  const { left } = leftOut()
  for (let claims = 0; claims < 10_000; claims += 1) expect(left.learn([missed(3, 'a')], 0)).toBe(true)
  expect(left.learn([missed(3, 'a')], 0)).toBe(false)
  left.learn([missed(3, 'a')], 1)
  expect(left.learn([missed(3, 'a')], 0)).toBe(true)
})
