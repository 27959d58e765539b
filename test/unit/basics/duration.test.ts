import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { toMs } from '../../../src/basics/time/duration.ts'

describe('toMs', () => {
  test.each([
    [0, 0],
    [1500, 1500],
    ['250ms', 250],
    ['30s', 30_000],
    ['1.5s', 1500],
    ['5m', 300_000],
    ['2h', 7_200_000],
    ['7d', 604_800_000],
    [' 1s ', 1000],
  ])('reads %j as %d ms', (duration, ms) => {
    expect(toMs(duration, 'delay')).toBe(ms)
  })

  test.each([-1, Number.NaN, Infinity, '', '5', 'm', '-5m', '5 weeks', '1e3s', null, undefined, {}, 5n, '101000d'])(
    'refuses %o, naming the option',
    (duration) => {
      expect(() => toMs(duration, 'delay')).toThrow(
        expect.objectContaining({ code: 'OPTION_INVALID', message: expect.stringContaining('delay: expected') }),
      )
    },
  )

  test('either refuses a string or gives finite milliseconds from zero', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^\d+(\.\d+)?(ms|s|m|h|d)$/)), (text) => {
        try {
          const ms = toMs(text, 'delay')
          return Number.isFinite(ms) && ms >= 0
        } catch (error) {
          return error instanceof Error && error.name === 'SluiceError'
        }
      }),
    )
  })
})
