import { describe, expect, test } from 'vitest'
import { SweepClock } from '../../../src/claim/sweep-clock.ts'

describe('SweepClock', () => {
  test('lets the first sweep run at once', () => {
    expect(new SweepClock(() => 0).waitMs()).toBe(0)
  })

  test('P6: gives sweeps 3 per cent of the time', () => {
    let now = 1_000
    const clock = new SweepClock(() => now)
    clock.ran(3)
    expect(clock.waitMs()).toBeCloseTo(100)
    now += 60
    expect(clock.waitMs()).toBeCloseTo(40)
    now += 41
    expect(clock.waitMs()).toBe(0)
  })

  test('P6: gives the sweeps of all workers on a queue 3 per cent of the time together', () => {
    const clock = new SweepClock(() => 0)
    clock.learn(32)
    clock.ran(3)
    expect(clock.waitMs()).toBeCloseTo(3_200)
    expect(clock.idleWaitMs()).toBe(1_000)
    clock.ran(60)
    expect(clock.waitMs()).toBe(30_000)
    clock.learn(0)
    clock.ran(3)
    expect(clock.waitMs()).toBeCloseTo(100)
  })

  test('a sweep that was slow makes the next one rare, whatever came before', () => {
    let now = 0
    const clock = new SweepClock(() => now)
    clock.ran(0.3)
    now = 10
    clock.ran(600)
    expect(clock.waitMs()).toBeCloseTo(20_000)
  })

  test('what only a sweep finds waits for half a minute at most, unless sweeps take longer than three seconds', () => {
    const clock = new SweepClock(() => 0)
    clock.ran(2_000)
    expect(clock.waitMs()).toBe(30_000)
    clock.ran(10_000)
    expect(clock.waitMs()).toBe(90_000)
  })

  test('P5: a claimer that found nothing waits a second at most, unless sweeps take longer themselves', () => {
    let now = 0
    const clock = new SweepClock(() => now)
    clock.ran(3)
    expect(clock.idleWaitMs()).toBeCloseTo(100)
    clock.ran(200)
    expect(clock.idleWaitMs()).toBe(1_000)
    now += 1_000
    expect(clock.idleWaitMs()).toBe(0)
    clock.ran(3_000)
    expect(clock.idleWaitMs()).toBe(6_000)
  })
})
