import { asyncScheduler, Observable, type OperatorFunction, type SchedulerLike, type Subscription } from 'rxjs'
import { integer } from '../config.ts'

export interface BatchOptions {
  /** The most items of a group, 1 to 100,000. */
  readonly size: number
  /** How long the first item of a group waits for the others at most, in milliseconds. */
  readonly maxWaitMs: number
  /** @default RxJS's asyncScheduler */
  readonly scheduler?: SchedulerLike
}

/**
 * Groups items by size and time. A group is emitted when it is full, when its first item has waited `maxWaitMs`, and
 * when the source completes; never an empty one, unlike `bufferTime`. On deliveries, keep `size` within the source's
 * demand, or only time closes groups.
 */
export function batch<Item>(options: BatchOptions): OperatorFunction<Item, readonly Item[]> {
  const size = integer('batch.size', options.size, 1, 1, 100_000)
  const maxWaitMs = integer('batch.maxWaitMs', options.maxWaitMs, 0, 0, 86_400_000)
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
      subscriber.add(() => timer?.unsubscribe())
      return source.subscribe({
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
