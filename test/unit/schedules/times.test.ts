import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decide, judgedAt, type Missed, MOST } from '../../../src/schedules/decide.ts'
import type { Times } from '../../../src/schedules/times.ts'
import { timesOf } from '../../../src/schedules/times-of.ts'

const S = 1_000
const M = 60_000
const D = 86_400_000

describe('a cron expression', () => {
  // Berlin turns its clocks on at 2026-03-29 01:00 UTC and back at 2026-10-25 01:00 UTC; Lord Howe Island by half an hour,
  // on at 2026-10-03 15:30 UTC and back at 2026-04-04 15:00 UTC.
  test.for([
    [
      'a fixed time in the gap comes at its end',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-03-28T02:00Z',
      ['29 01:00', '30 00:30'],
    ],
    [
      'a fixed time in the double hour comes once',
      '30 2 * * *',
      'Europe/Berlin',
      '2026-10-24T02:00Z',
      ['25 00:30', '26 01:30'],
    ],
    [
      'the fixed times of a list in the gap come at its end, as one',
      '15,45 1,2,3 * * *',
      'Europe/Berlin',
      '2026-03-29T00:30Z',
      ['29 00:45', '29 01:00', '29 01:15', '29 01:45', '29 23:15'],
    ],
    [
      'the fixed times of a list in the double hour come once',
      '0 15,45 2 * * *',
      'Europe/Berlin',
      '2026-10-24T02:00Z',
      ['25 00:15', '25 00:45', '26 01:15'],
    ],
    [
      'a range goes on through the gap',
      '30 1-3 * * *',
      'Europe/Berlin',
      '2026-03-29T00:00Z',
      ['29 00:30', '29 01:30', '29 23:30'],
    ],
    [
      'a range goes on through both hours',
      '30 1-3 * * *',
      'Europe/Berlin',
      '2026-10-24T23:00Z',
      ['24 23:30', '25 00:30', '25 01:30', '25 02:30'],
    ],
    [
      'a step goes on through the gap',
      '*/30 * * * *',
      'Europe/Berlin',
      '2026-03-29T00:15Z',
      ['29 00:30', '29 01:00', '29 01:30'],
    ],
    [
      'a step goes on through both hours',
      '*/30 * * * *',
      'Europe/Berlin',
      '2026-10-25T00:15Z',
      ['25 00:30', '25 01:00', '25 01:30', '25 02:00'],
    ],
    [
      'every hour is every hour, also twice the same',
      '5 * * * *',
      'Europe/Berlin',
      '2026-10-24T23:30Z',
      ['25 00:05', '25 01:05', '25 02:05'],
    ],
    ['a gap of half an hour', '15 2 * * *', 'Australia/Lord_Howe', '2026-10-02T16:00Z', ['03 15:30', '04 15:15']],
    ['a double half hour', '45 1 * * *', 'Australia/Lord_Howe', '2026-04-03T15:00Z', ['04 14:45', '05 15:15']],
    [
      'a step through a double half hour',
      '*/20 * * * *',
      'Australia/Lord_Howe',
      '2026-04-04T14:45Z',
      ['04 15:10', '04 15:30'],
    ],
    ['the last day of a month', '0 0 L * *', 'UTC', '2026-02-01T00:00Z', ['28 00:00', '31 00:00']],
    ['a weekday or a day of the month', '0 0 13 * FRI', 'UTC', '2026-03-07T00:00Z', ['13 00:00', '20 00:00']],
  ] as const)('%s', async ([, cron, zone, from, wanted]) => {
    const times = await timesOf({ cron, everyMs: null, zone })
    expect(following(times, Date.parse(from), wanted.length).map(dayAndTime)).toEqual(wanted)
  })

  test('has the same occurrences backwards as forwards, around every change of clocks', async () => {
    for (const [cron, zone] of [
      ['30 2 * * *', 'Europe/Berlin'],
      ['*/20 * * * *', 'Australia/Lord_Howe'],
      ['15,45 1-3 * * *', 'America/New_York'],
      ['15,45 1,2,3 * * *', 'America/New_York'],
      ['10,20,50 1,2 * * *', 'Australia/Lord_Howe'],
      ['0,30 15,45 2 * * *', 'Europe/Berlin'],
    ] as const) {
      const times = await timesOf({ cron, everyMs: null, zone })
      for (const day of ['2026-03-07', '2026-03-28', '2026-04-04', '2026-10-02', '2026-10-24', '2026-10-31']) {
        const [from, until] = [Date.parse(`${day}T00:00Z`), Date.parse(`${day}T00:00Z`) + 2 * D]
        const forwards = following(times, from, 2_000, until)
        expect(times.between(from, until, MOST)).toEqual(forwards.slice(-MOST))
      }
    }
  })

  test('counts an occurrence at the end of a span, and none at its beginning', async () => {
    const times = await timesOf({ cron: '* * * * * *', everyMs: null, zone: 'UTC' })
    for (const most of [3, MOST]) {
      const found = times.between(0, 200 * S, most)
      expect([found.at(0), found.at(-1), found.length]).toEqual([
        (200 - Math.min(most, 200) + 1) * S,
        200 * S,
        Math.min(most, 200),
      ])
    }
  })
})

describe('an interval', () => {
  test('is counted from 1970 in UTC, whenever it is looked at', async () => {
    const times = await timesOf({ cron: null, everyMs: 15 * M, zone: 'UTC' })
    const from = Date.parse('2026-11-22T10:07:13.250Z')
    expect(following(times, from, 2).map(dayAndTime)).toEqual(['22 10:15', '22 10:30'])
    expect(times.between(from, from + 40 * M, 2).map(dayAndTime)).toEqual(['22 10:30', '22 10:45'])
    expect(times.between(from, from + M, 2)).toEqual([])
  })
})

describe('what is enqueued of a schedule that is due', () => {
  const every10: Times = {
    after: (ms) => (Math.floor(ms / 10) + 1) * 10,
    between: (after, until, most) => upTo(after, until).slice(-most),
  }
  const at = { nextMs: 10, nowMs: 55, graceMs: 0, catchUpMost: 100, catchUpMs: 1_000 }

  test.for([
    ['one that is due now, with what follows', { nowMs: 10 }, [10], 20, 0],
    ['what is no later than the grace', { graceMs: 25 }, [30, 40, 50], 60, 2],
    ['nothing that was missed', {}, [], 60, 5],
    ['the last one that was missed', { missed: 'last' }, [50], 60, 4],
    ['no missed one beside one in time', { missed: 'last', graceMs: 5 }, [50], 60, 4],
    ['all that were missed', { missed: 'all' }, [10, 20, 30, 40, 50], 60, 0],
    ['as many as the bound says, the latest', { missed: 'all', catchUpMost: 2 }, [40, 50], 60, 3],
    ['none that is too old', { missed: 'all', catchUpMs: 30 }, [30, 40, 50], 60, 2],
    ['no last one that is too old', { missed: 'last', catchUpMs: 3 }, [], 60, 5],
  ] as const)('%s', ([, options, occurrences, next, skipped]) => {
    expect(decide(every10, { ...at, missed: 'skip', ...options })).toEqual({ occurrences, following: next, skipped })
  })

  test('is what was announced, even if this process knows other rules of the time zone', () => {
    const none: Times = { after: () => null, between: () => [] }
    const due = { ...at, nextMs: 54, graceMs: 10, missed: 'skip' } as const
    expect(decide(none, due)).toEqual({ occurrences: [54], following: null, skipped: 0 })
  })

  test('is all that is in time, a thousand at once, and what is missed before that is counted once', () => {
    const due = { ...at, nowMs: 25_005, graceMs: 24_000, missed: 'skip' } as const
    const first = decide(every10, due)
    expect([first.occurrences.length, first.occurrences[0], first.skipped]).toEqual([MOST, 1_010, 100])
    const second = decide(every10, { ...due, nextMs: first.following ?? 0 })
    expect([second.occurrences[0], second.occurrences.length, second.skipped]).toEqual([11_010, MOST, 0])
    const third = decide(every10, { ...due, nextMs: second.following ?? 0 })
    expect([third.occurrences[0], third.occurrences.at(-1), third.following, third.skipped]).toEqual([
      21_010, 25_000, 25_010, 0,
    ])
  })

  test('is a thousand at once also of what is made up for and what is in time', () => {
    const due = { ...at, nowMs: 25_005, graceMs: 5_000, missed: 'all', catchUpMost: 990, catchUpMs: 100_000 } as const
    const { occurrences, following: next, skipped } = decide(every10, due)
    expect([occurrences.length, occurrences[0], occurrences.at(-1), next, skipped]).toEqual([
      MOST,
      10_110,
      20_100,
      20_110,
      10,
    ])
  })

  test.for([
    ['as at the beginning of the look, what was in time then', { nextMs: 100, nowMs: 150, since: 105 }, 110],
    ['as at the beginning of the look, what was missed then', { nextMs: 80, nowMs: 150, since: 105 }, 105],
    ['within the grace of its time, what has fallen due since', { nextMs: 120, nowMs: 150, since: 105 }, 130],
    ['now, what is no later than the grace', { nextMs: 145, nowMs: 150, since: 105 }, 150],
  ] as const)('is judged %s', ([, { since, ...given }, judged]) => {
    expect(judgedAt({ ...at, ...given, graceMs: 10, missed: 'skip' }, since)).toBe(judged)
  })

  test('is each occurrence once at most and in order, and the next is later than all', () => {
    const missed = fc.constantFrom<Missed>('skip', 'last', 'all')
    const numbers = fc.record({
      nextMs: fc.nat(50).map((n) => n * 10),
      waited: fc.nat(5_000),
      graceMs: fc.nat(300),
      catchUpMost: fc.integer({ min: 1, max: 50 }),
      catchUpMs: fc.nat(2_000),
    })
    fc.assert(
      fc.property(missed, numbers, (policy, { waited, ...given }) => {
        const nowMs = given.nextMs + waited
        const { occurrences, following: next, skipped } = decide(every10, { ...given, nowMs, missed: policy })
        expect(occurrences).toEqual([...new Set(occurrences)].sort((a, b) => a - b))
        expect(occurrences.length + skipped).toBe(Math.floor(waited / 10) + 1)
        expect(next).toBeGreaterThan(nowMs)
      }),
    )
  })
})

function following(times: Times, fromMs: number, count: number, untilMs = Infinity): readonly number[] {
  const found: number[] = []
  for (let ms = times.after(fromMs); ms !== null && ms <= untilMs && found.length < count; ms = times.after(ms))
    found.push(ms)
  return found
}

function upTo(after: number, until: number): readonly number[] {
  const found: number[] = []
  for (let ms = (Math.floor(after / 10) + 1) * 10; ms <= until; ms += 10) found.push(ms)
  return found
}

/** '29 01:00' */
function dayAndTime(ms: number): string {
  return new Date(ms).toISOString().slice(8, 16).replace('T', ' ')
}
