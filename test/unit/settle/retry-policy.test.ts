import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { DeliveredMessage } from '../../../src/claim/delivered-message.ts'
import { resolvePipeline } from '../../../src/plan/resolve.ts'
import { type RetryOptions, retryPolicy } from '../../../src/retry-policy.ts'
import { Alphabet } from '../../../src/session/alphabet.ts'
import { AttemptRules } from '../../../src/settings/attempt-rules.ts'
import { decide } from '../../../src/settle/decide.ts'
import { LockedRows } from '../../../src/settle/locked-rows.ts'
import { Settlement } from '../../../src/settle/settlement.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { refusalOf } from '../../support/refusal.ts'
import { claimedRow } from '../../support/rows/claimed-row.ts'

const least = () => 0
/** The most that Math.random gives. */
const most = () => 1 - 2 ** -53

/** The waits after the first failed attempts. */
function waits(options: RetryOptions | undefined, attempts: number, random = least): readonly number[] {
  const policy = retryPolicy(options, random)
  return Array.from({ length: attempts }, (_, at) => policy(at + 1, undefined))
}

describe('without options, waits', () => {
  test('grow from a second to an hour', () => {
    expect(waits(undefined, 14)).toEqual([
      ...[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024, 2_048, 3_600, 3_600].map((seconds) => seconds * 1_000),
    ])
  })

  test('are reduced by chance, by a fifth at most', () => {
    expect(waits(undefined, 2, most)[0]).toBeCloseTo(800)
    expect(waits(undefined, 20, most).at(-1)).toBeCloseTo(2_880_000)
  })
})

describe('a fixed wait', () => {
  test('is the same each time', () => {
    expect(waits({ kind: 'fixed', delay: '5s' }, 3)).toEqual([5_000, 5_000, 5_000])
    expect(waits({ kind: 'fixed', delay: 0 }, 2)).toEqual([0, 0])
  })
})

describe('exponential waits', () => {
  test('grow by the factor, up to the longest', () => {
    const options = { kind: 'exponential', delay: '10ms', maxDelay: '1s', factor: 5, jitter: 0 } as const
    expect(waits(options, 5)).toEqual([10, 50, 250, 1_000, 1_000])
  })

  test('are never shorter than a first wait of more than an hour', () => {
    expect(waits({ kind: 'exponential', delay: '2h', jitter: 0 }, 3)).toEqual([7_200_000, 7_200_000, 7_200_000])
  })

  test('may all be shorter than the default first wait', () => {
    expect(waits({ kind: 'exponential', maxDelay: '500ms', jitter: 0 }, 2)).toEqual([500, 500])
  })

  test('stay the same with the factor 1', () => {
    expect(waits({ kind: 'exponential', delay: '3s', factor: 1, jitter: 0 }, 3)).toEqual([3_000, 3_000, 3_000])
  })

  test('may be drawn from nothing to all', () => {
    const policy = retryPolicy({ kind: 'exponential', jitter: 1 }, most)
    expect(policy(1, undefined)).toBeGreaterThanOrEqual(0)
    expect(policy(1, undefined)).toBeLessThan(1e-9)
  })

  const options = fc.record({
    kind: fc.constant('exponential' as const),
    delay: fc.double({ min: 0, max: 1e9, noNaN: true }),
    maxDelay: fc.double({ min: 1e9, max: 1e11, noNaN: true }),
    factor: fc.double({ min: 1, max: 100, noNaN: true }),
    jitter: fc.double({ min: 0, max: 1, noNaN: true }),
  })
  const chance = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
  const attempt = fc.integer({ min: 1, max: 1_000_000 })

  test('keep within the jitter and the longest wait, whatever the options and the attempt', () => {
    fc.assert(
      fc.property(options, attempt, chance, (chosen, tries, drawn) => {
        const full = retryPolicy({ ...chosen, jitter: 0 })(tries, undefined)
        const ms = retryPolicy(chosen, () => drawn)(tries, undefined)
        expect(full).toBeLessThanOrEqual(chosen.maxDelay)
        expect(ms).toBeLessThanOrEqual(full)
        expect(ms).toBeGreaterThanOrEqual(full * (1 - chosen.jitter))
      }),
    )
  })

  test('never shrink from one attempt to the next', () => {
    fc.assert(
      fc.property(options, attempt, (chosen, tries) => {
        const policy = retryPolicy({ ...chosen, jitter: 0 })
        expect(policy(tries + 1, undefined)).toBeGreaterThanOrEqual(policy(tries, undefined))
      }),
    )
  })
})

describe('a function', () => {
  test('gets the attempt and the error, and may answer in words', () => {
    const seen: unknown[] = []
    const policy = retryPolicy((attempt, error) => {
      seen.push([attempt, error])
      return attempt === 1 ? '1s' : 2_500
    })
    const broken = new Error('broken')
    expect([policy(1, broken), policy(2, 'text')]).toEqual([1_000, 2_500])
    expect(seen).toEqual([
      [1, broken],
      [2, 'text'],
    ])
  })

  test.each([
    [-1, '-1'],
    [Number.NaN, 'NaN'],
    [Number.POSITIVE_INFINITY, 'Infinity'],
    ['soon', '"soon"'],
    [undefined, 'undefined'],
  ])('that answers %o throws, as one that throws by itself', (answer, received) => {
    const policy = retryPolicy(() => answer as number)
    expect(refusalOf(() => policy(1, undefined))).toBe(
      `OPTION_INVALID: retry(): expected milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d', received ${received}`,
    )
    const broken = new Error('broken')
    expect(() =>
      retryPolicy(() => {
        throw broken
      })(1, undefined),
    ).toThrow(broken)
  })
})

describe('a policy that throws, or answers no time,', () => {
  test.each<[string, () => unknown]>([
    ['throws', () => raise('no idea')],
    ['answers NaN', () => Number.NaN],
    ['answers what is below zero', () => -5],
    ['answers infinity', () => Number.POSITIVE_INFINITY],
    ['is async, and fails', async () => raise('no idea')],
  ])('%s: the message waits one second, and it is reported', async (_name, retry) => {
    const events: SluiceEvent[] = []
    const written: unknown[][] = []
    const plan = { ...resolvePipeline('mails', {}), retry: retry as () => number }
    const report = (event: SluiceEvent) => events.push(event)
    const clock = { nowUs: () => 5_000_000, passedUs: () => 5_000_000 }
    const alphabet = new Alphabet()
    const attempts = new AttemptRules(plan, { report })
    const settlement = new Settlement(
      { queue: 'mails', attempts, clock, workerName: () => 'web-1' },
      new LockedRows(
        { alphabet, serverVersion: () => 180_000, historyBy: () => undefined },
        { queue: 'mails', ordered: false },
        clock,
        5_000_000,
      ),
      alphabet,
    )
    settlement.put(
      decide(
        new DeliveredMessage('mails', claimedRow({ id: '7' })),
        { kind: 'retryLater' },
        undefined,
        settlement.rules,
      ),
    )
    await settlement.write(async (_statement, params) => {
      written.push([...params])
      return []
    })
    settlement.reportAll(report)
    expect(written).toEqual([
      ['mails', '{7}', [6_000_000], [1], [expect.any(String)], 5_000_000, [expect.stringContaining('web-1')]],
    ])
    expect(events.map((event) => event.kind)).toEqual(['retryPolicy.failed', 'message.failed'])
    expect(events[1]).toMatchObject({ retryInMs: 1_000 })
  })
})

describe('bad options are refused', () => {
  const duration = "milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d'"
  const kind = "OPTION_INVALID: retry.kind: expected 'fixed' or 'exponential'"
  test.each([
    [{ kind: 'linear' }, `${kind}, received "linear"`],
    [{ delay: '1s' }, `${kind}, received undefined`],
    [null, 'OPTION_INVALID: retry: expected an object with a kind, or a function, received null'],
    [5, 'OPTION_INVALID: retry: expected an object with a kind, or a function, received 5'],
    [{ kind: 'fixed' }, `OPTION_INVALID: retry.delay: expected ${duration}, received undefined`],
    [{ kind: 'fixed', delay: '5 s' }, `OPTION_INVALID: retry.delay: expected ${duration}, received "5 s"`],
    [{ kind: 'fixed', delayMs: 5 }, 'OPTION_INVALID: retry: expected only the options kind, delay, received "delayMs"'],
    [{ kind: 'exponential', delay: -1 }, `OPTION_INVALID: retry.delay: expected ${duration}, received -1`],
    [
      { kind: 'exponential', maxDelay: 'never' },
      `OPTION_INVALID: retry.maxDelay: expected ${duration}, received "never"`,
    ],
    [
      { kind: 'exponential', factor: 0.5 },
      'OPTION_INVALID: retry.factor: expected a number from 1 to 100, received 0.5',
    ],
    [
      { kind: 'exponential', factor: Number.NaN },
      'OPTION_INVALID: retry.factor: expected a number from 1 to 100, received NaN',
    ],
    [
      { kind: 'exponential', jitter: '20%' },
      'OPTION_INVALID: retry.jitter: expected a number from 0 to 1, received "20%"',
    ],
    [
      { kind: 'exponential', max: '1h' },
      'OPTION_INVALID: retry: expected only the options kind, delay, maxDelay, factor, jitter, received "max"',
    ],
    [
      { kind: 'exponential', delay: '2h', maxDelay: '1h' },
      'OPTION_INVALID: retry.maxDelay: expected no less than the delay, which is 7200000 ms, received "1h"',
    ],
    [
      { kind: 'fixed', delay: '5s', maxDelay: '1h' },
      `OPTION_INVALID: retry: expected only the options kind, delay, received "maxDelay". maxDelay belongs to kind: 'exponential'`,
    ],
  ])('%o', (options: unknown, refusal) => {
    expect(refusalOf(() => retryPolicy(options as RetryOptions))).toContain(refusal)
  })
})

function raise(text: string): never {
  throw new Error(text)
}
