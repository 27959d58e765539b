import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import * as ours from 'rxjs'
import { expect, test } from 'vitest'
import { GuardedObservable } from '../../../src/telemetry/guarded-observable.ts'

type Rxjs = typeof ours

test.for([
  ['ours', ours],
  ['another', anotherCopy()],
] as const)('operators and promises of %s copy of RxJS unsubscribe', async ([, { filter, firstValueFrom, take }]) => {
  const subject = new ours.Subject<number>()
  const guarded = new GuardedObservable<number>((subscriber) => subject.subscribe(subscriber))
  const first = firstValueFrom(guarded)
  const taken: number[] = []
  guarded
    .pipe(
      filter((n) => n > 1),
      take(1),
    )
    .subscribe((n) => taken.push(n))
  const watched: number[] = []
  const subscription = guarded.subscribe((n) => watched.push(n))
  for (const n of [1, 2, 3]) subject.next(n)
  subscription.unsubscribe()
  expect(await first).toBe(1)
  expect(taken).toEqual([2])
  expect(watched).toEqual([1, 2, 3])
  expect(subject.observed).toBe(false)
})

test('a Subject may subscribe, although it can unsubscribe too', () => {
  const subject = new ours.Subject<number>()
  const guarded = new GuardedObservable<number>((subscriber) => subject.subscribe(subscriber))
  const relay = new ours.Subject<number>()
  const seen: number[] = []
  relay.subscribe((n) => seen.push(n))
  guarded.subscribe(relay)
  subject.next(1)
  expect(seen).toEqual([1])
})

/** The package has all of itself once more in one file, which shares nothing with what is imported. */
function anotherCopy(): Rxjs {
  const require = createRequire(import.meta.url)
  const other: Rxjs = require(join(dirname(require.resolve('rxjs')), '../bundles/rxjs.umd.js'))
  expect(other.Subscriber).not.toBe(ours.Subscriber)
  return other
}
