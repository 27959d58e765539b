import fc from 'fast-check'
import { asyncScheduler, concatMap, from, map, range, Subject, take, tap, timer } from 'rxjs'
import { TestScheduler } from 'rxjs/testing'
import { describe, expect, test, vi } from 'vitest'
import { type GroupOptions, groupWithin } from '../../../src/rx/group-within.ts'
import { marbles } from '../../support/marbles.ts'
import { refusalOf } from '../../support/refusal.ts'

describe('groupWithin', () => {
  test.each<[string, GroupOptions, string, string, Record<string, readonly string[]>]>([
    ['emits nothing of a source that never does', { size: 2, maxWait: 5 }, '-', '-', {}],
    ['emits no empty group when the source completes', { size: 2, maxWait: 5 }, '--|', '--|', {}],
    ['emits what it has when the source completes', { size: 2, maxWait: 5 }, 'a|', '-(g|)', { g: ['a'] }],
    ['closes a group by size', { size: 2, maxWait: 9 }, 'abcd|', '-g-h|', { g: ['a', 'b'], h: ['c', 'd'] }],
    ['emits one by one at size 1', { size: 1, maxWait: 9 }, 'a-b|', 'g-h|', { g: ['a'], h: ['b'] }],
    [
      'closes a group by the time that its first item has waited',
      { size: 9, maxWait: 3 },
      'ab------c|',
      '---g-----(h|)',
      { g: ['a', 'b'], h: ['c'] },
    ],
    [
      'is quiet while there are no items',
      { size: 9, maxWait: 2 },
      'a---------b--|',
      '--g---------h|',
      { g: ['a'], h: ['b'] },
    ],
    [
      'measures the wait anew after a full group',
      { size: 2, maxWait: 4 },
      'a--bc-----|',
      '---g----h-|',
      { g: ['a', 'b'], h: ['c'] },
    ],
    [
      'groups what comes at one instant with no wait',
      { size: 9, maxWait: 0 },
      '(ab)-c|',
      'g----h|',
      { g: ['a', 'b'], h: ['c'] },
    ],
    ['passes an error on at once, without the unfinished group', { size: 9, maxWait: 5 }, 'ab#', '--#', {}],
  ])('%s', (_name, options, source, output, groups) => {
    marbles(({ cold, expectObservable }) => {
      expectObservable(cold(source).pipe(groupWithin(options))).toBe(output, groups)
    })
  })

  test('lets go of the source and of its timer when unsubscribed', () => {
    marbles(({ cold, expectObservable, expectSubscriptions }) => {
      const source = cold('a-b-c-')
      expectObservable(source.pipe(groupWithin({ size: 9, maxWait: 4 })), '---!').toBe('----')
      expectSubscriptions(source.subscriptions).toBe('^--!')
    })
  })

  test('keeps every subscriber a group of its own', () => {
    marbles(({ hot, expectObservable }) => {
      const grouped = hot('-a-b-c-d|').pipe(groupWithin({ size: 2, maxWait: 9 }))
      expectObservable(grouped).toBe('---g---h|', { g: ['a', 'b'], h: ['c', 'd'] })
      expectObservable(grouped, '--^').toBe('-----g--(h|)', { g: ['b', 'c'], h: ['d'] })
    })
  })

  test('takes a scheduler', () => {
    const scheduler = new TestScheduler(() => undefined)
    const groups: (readonly string[])[] = []
    const source = new Subject<string>()
    source.pipe(groupWithin({ size: 9, maxWait: 10, scheduler })).subscribe((group) => groups.push(group))
    source.next('a')
    expect(groups).toEqual([])
    scheduler.flush()
    expect(groups).toEqual([['a']])
  })

  test('goes through 10,000 synchronous items', () => {
    const groups: (readonly number[])[] = []
    range(0, 10_000)
      .pipe(groupWithin({ size: 100, maxWait: 1_000 }))
      .subscribe((group) => groups.push(group))
    expect(groups).toHaveLength(100)
    expect(groups.flat()).toEqual(Array.from({ length: 10_000 }, (_, at) => at))
  })

  test('stops a synchronous source without end as soon as nobody listens, and leaves no timer', () => {
    vi.useFakeTimers()
    try {
      const groups: (readonly number[])[] = []
      range(0, Number.POSITIVE_INFINITY)
        .pipe(groupWithin({ size: 2, maxWait: 1_000, scheduler: asyncScheduler }), take(3))
        .subscribe((group) => groups.push(group))
      expect(groups.flat()).toEqual([0, 1, 2, 3, 4, 5])
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  test('bears a subscriber that makes the source emit', () => {
    const source = new Subject<number>()
    const groups: (readonly number[])[] = []
    source.pipe(groupWithin({ size: 2, maxWait: 1_000 })).subscribe((group) => {
      groups.push(group)
      if (groups.length < 3) for (const item of group) source.next(item + 2)
    })
    from([1, 2]).subscribe((item) => source.next(item))
    expect(groups).toEqual([
      [1, 2],
      [3, 4],
      [5, 6],
    ])
  })

  test('loses, doubles and reorders nothing, and keeps no item longer than it may, whatever the gaps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 1, max: 12 }), { maxLength: 30 }),
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 0, max: 10 }),
        (gaps, size, maxWait) => {
          marbles(({ flush }, scheduler) => {
            const arrivals: number[] = []
            const groups: { readonly arrivals: readonly number[]; readonly at: number }[] = []
            from(gaps)
              .pipe(
                concatMap((gap) => timer(gap)),
                map(() => scheduler.now()),
                tap((now) => arrivals.push(now)),
                groupWithin({ size, maxWait }),
              )
              .subscribe((group) => groups.push({ arrivals: group, at: scheduler.now() }))
            flush()
            expect(groups.flatMap((group) => group.arrivals)).toEqual(arrivals)
            expect(arrivals).toHaveLength(gaps.length)
            for (const group of groups) {
              expect(group.arrivals.length).toBeGreaterThan(0)
              expect(group.arrivals.length).toBeLessThanOrEqual(size)
              expect(group.at - (group.arrivals[0] ?? 0)).toBeLessThanOrEqual(maxWait)
            }
          })
        },
      ),
    )
  })

  test.each([
    [{ maxWait: 5 }, 'OPTION_INVALID: groupWithin.size: expected an integer from 1 to 100000, received undefined'],
    [{ size: 5 }, `OPTION_INVALID: groupWithin.maxWait: expected ${DURATION}, received undefined`],
    [{ size: 0, maxWait: 5 }, 'OPTION_INVALID: groupWithin.size: expected an integer from 1 to 100000, received 0'],
    [{ size: 5, maxWait: -1 }, `OPTION_INVALID: groupWithin.maxWait: expected ${DURATION}, received -1`],
    [
      { size: 5, maxWait: '2d' },
      `OPTION_INVALID: groupWithin.maxWait: expected a duration from '0ms' to '1d', received "2d"`,
    ],
    [
      { size: 5, maxWaitMs: 5 },
      'OPTION_INVALID: groupWithin: expected only the options size, maxWait, scheduler, received "maxWaitMs". Did you mean maxWait?',
    ],
  ])('refuses %o', (options: object, refusal) => {
    expect(refusalOf(() => groupWithin(options as GroupOptions))).toBe(refusal)
  })
})

const DURATION = "milliseconds from 0, or a string such as '250ms', '30s', '5m', '2h', '7d'"
