import {
  asyncScheduler,
  Observable,
  type OperatorFunction,
  type SchedulerLike,
  Subject,
  type Subscription,
  takeUntil,
} from 'rxjs'
import { checkKeys } from '../basics/check-keys.ts'
import { integer } from '../config.ts'
import { expected } from '../errors.ts'

/** How `batch` groups. */
export interface BatchOptions {
  /** The most items of a group, 1 to 100,000. */
  readonly size: number
  /** How long the first item of a group waits for the others at most, in milliseconds, 0 to 86,400,000 (a day). */
  readonly maxWaitMs: number
  /** Keeps the time: for tests. @default RxJS's asyncScheduler */
  readonly scheduler?: SchedulerLike
}

/**
 * Groups items by size and time. A group is emitted when it is full, when its first item has waited `maxWaitMs`, and
 * when the source completes; never an empty one, unlike `bufferTime`. On deliveries, keep `size` within the source's
 * demand, or only time closes groups. If the source fails, the items of an unfinished group are not emitted.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function batch<Item>(options: BatchOptions): OperatorFunction<Item, readonly Item[]> {
  checkKeys('batch', options, ['size', 'maxWaitMs', 'scheduler'])
  const size = required('batch.size', options.size, 1, 100_000)
  const maxWaitMs = required('batch.maxWaitMs', options.maxWaitMs, 0, 86_400_000)
  const scheduler = options.scheduler ?? asyncScheduler
  return (source) =>
    new Observable((subscriber) => {
      let group: Item[] = []
      let timer: Subscription | undefined
      const flush = () => {
        timer?.unsubscribe()
        timer = undefined
        const full = group
        group = []
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
          group.push(item)
          if (group.length >= size) flush()
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

function required(what: string, value: unknown, least: number, most: number): number {
  if (value === undefined) throw expected('OPTION_INVALID', what, `an integer from ${least} to ${most}`, value)
  return integer(what, value, least, least, most)
}
