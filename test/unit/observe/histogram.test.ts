import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Histogram } from '../../../src/statistics/histogram.ts'
import { Meter } from '../../../src/statistics/meter.ts'

describe('a histogram', () => {
  test('is at most 3.2 % wrong about each percentile, for durations from microseconds to years', () => {
    const durations = fc.array(
      fc
        .tuple(fc.double({ min: 1, max: 2, noNaN: true }), fc.integer({ min: -9, max: 34 }))
        .map(([a, b]) => a * 2 ** b),
      { minLength: 1, maxLength: 200 },
    )
    fc.assert(
      fc.property(durations, fc.double({ min: 0, max: 1, noNaN: true }), (all, share) => {
        const histogram = new Histogram()
        for (const ms of all) histogram.add(ms)
        const sorted = all.toSorted((a, b) => a - b)
        const exact = sorted[Math.max(1, Math.ceil(all.length * share)) - 1]!
        expect(Math.abs(histogram.quantileMs(share) - exact) / exact).toBeLessThan(0.032)
        expect(histogram.maxMs).toBe(sorted.at(-1))
        expect(histogram.count).toBe(all.length)
      }),
    )
  })

  test('takes what is negative, none or longer than it knows', () => {
    const histogram = new Histogram()
    for (const ms of [-5, 0, Number.NaN, 1e15]) histogram.add(ms)
    expect(histogram.count).toBe(4)
    expect(histogram.quantileMs(0.5)).toBeLessThan(0.0011)
    expect(histogram.maxMs).toBe(1e15)
    expect(new Histogram().quantileMs(0.99)).toBe(0)
  })

  test('added to another one counts as if it had heard of all', () => {
    const [one, other, both] = [new Histogram(), new Histogram(), new Histogram()]
    for (let ms = 1; ms <= 100; ms += 1) {
      ;(ms % 3 === 0 ? one : other).add(ms)
      both.add(ms)
    }
    one.addAll(other)
    for (const share of [0, 0.5, 0.99, 1]) expect(one.quantileMs(share)).toBe(both.quantileMs(share))
    expect(one.meanMs).toBeCloseTo(50.5)
  })
})

describe('a meter', () => {
  const MINUTE = 60_000

  test('forgets durations after ten minutes and keeps counts', () => {
    const meter = new Meter(0)
    meter.handled(0, 10)
    meter.settled({ acked: 1, retried: 2, snoozed: 3, dead: 4 })
    expect(Meter.sum([meter], 4 * MINUTE).handling).toMatchObject({ count: 1, maxMs: 10 })
    meter.handled(6 * MINUTE, 6 * MINUTE + 20)
    expect(Meter.sum([meter], 7 * MINUTE).handling).toMatchObject({ count: 2, maxMs: 20 })
    expect(Meter.sum([meter], 12 * MINUTE).handling).toMatchObject({ count: 1, maxMs: 20 })
    expect(Meter.sum([meter], 60 * MINUTE)).toEqual({
      acked: 1,
      retried: 2,
      snoozed: 3,
      dead: 4,
      waiting: null,
      handling: null,
    })
  })

  test('keeps what another one has measured just now, also if it has heard of nothing for an hour', () => {
    const [ended, latest] = [new Meter(0), new Meter(60 * MINUTE)]
    latest.handled(60 * MINUTE, 60 * MINUTE + 5)
    ended.absorb(latest, 60 * MINUTE + 10)
    expect(Meter.sum([ended], 61 * MINUTE).handling).toMatchObject({ count: 1, maxMs: 5 })
  })

  test('measures a wait by the clock of the database until the claim and by its own from then on', () => {
    const meter = new Meter(0)
    const claimedUs = 1_700_000_000_000_000
    meter.begun(claimedUs - 250_000, { nowUs: claimedUs, sentAtMs: 1_000 }, 1_050)
    expect(Meter.sum([meter], 2_000).waiting).toMatchObject({ count: 1, maxMs: 300, meanMs: 300 })
  })
})
