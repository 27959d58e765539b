import {
  asyncScheduler,
  Observable,
  type OperatorFunction,
  type SchedulerLike,
  Subject,
  type Subscription,
  takeUntil,
} from 'rxjs'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integerWithin } from '../basics/checks/options.ts'
import { type Duration, toMsWithin } from '../basics/time/duration.ts'

/** How `groupWithin` groups. */
export interface GroupOptions {
  /** The most items of a group, 1 to 100,000. */
  readonly size: number
  /** How long the first item of a group waits for the others at most, 0 to a day. */
  readonly maxWait: Duration
  /** Keeps the time: for tests. @default RxJS's asyncScheduler */
  readonly scheduler?: SchedulerLike
}

/**
 * Groups items by size and time. A group is emitted when it is full, when its first item has waited `maxWait`, and
 * when the source completes; never an empty one, unlike `bufferTime`. On deliveries, keep `size` within the source's
 * demand, or only time closes groups. If the source fails, the items of an unfinished group are not emitted.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function groupWithin<Item>(options: GroupOptions): OperatorFunction<Item, readonly Item[]> {
  checkKeys('groupWithin', options, ['size', 'maxWait', 'scheduler'])
  const size = integerWithin('groupWithin.size', options.size, 1, 100_000)
  const maxWaitMs = toMsWithin('groupWithin.maxWait', options.maxWait, '0ms', '1d')
  const scheduler = options.scheduler ?? asyncScheduler
  return (source) =>
    new Observable((subscriber) => {
      let items: Item[] = []
      let timer: Subscription | undefined
      const flush = () => {
        timer?.unsubscribe()
        timer = undefined
        const full = items
        items = []
        if (full.length > 0) subscriber.next(full)
      }
      // Also stops a source that emits synchronously, before there is a subscription to return.
      const closed = new Subject<void>()
      subscriber.add(() => {
        closed.next()
        timer?.unsubscribe()
      })
      return source.pipe(takeUntil(closed)).subscribe({
        next: (item) => {
          items.push(item)
          if (items.length >= size) flush()
          else timer ??= scheduler.schedule(flush, maxWaitMs)
        },
        error: (error: unknown) => subscriber.error(error),
        complete: () => {
          flush()
          subscriber.complete()
        },
      })
    })
}
