import { AsyncLocalStorage } from 'node:async_hooks'
import { SluiceError } from '../errors.ts'
import type { Meter } from '../statistics/meter.ts'

/** Where handlers are called one after another. */
export interface Inside {
  /** Of the consumer whose handlers they are. */
  readonly meter: Meter
  readonly deadline: { readonly isCalling: boolean }
}

/**
 * Before Node 24 a process that uses this pays for it with each promise: 0.6 µs for a handler that awaits. Since then it costs
 * 0.3 µs for each batch, in leased mode for each handler.
 */
const callers =
  Number.parseInt(process.versions.node, 10) >= 24 ? new AsyncLocalStorage<Inside | undefined>() : undefined

/** Does work that calls handlers, so that what they call can find out. */
export function runInside<T>(inside: Inside, work: () => T): T {
  return callers === undefined ? work() : callers.run(inside, work)
}

/** The consumer in whose handler we are, while that runs. */
export function meterInside(): Meter | undefined {
  const inside = callers?.getStore()
  return inside?.deadline.isCalling ? inside.meter : undefined
}

/**
 * Begins what waits for handlers. What ends only with the handler in which we are cannot be awaited there: its promise rejects at
 * once. A handler that does not await it is right, so this rejection ends no process.
 *
 * @param isInHandler whether it waits for the handler that calls it
 */
export function waitForHandlers<T>(call: string, isInHandler: boolean, begin: () => Promise<T>): Promise<T> {
  if (!isInHandler) return begin()
  const begun = callers === undefined ? begin() : callers.run(undefined, begin)
  begun.catch(() => undefined)
  const refusal = Promise.reject<T>(
    new SluiceError(
      'IN_HANDLER',
      `${call}: expected not to be awaited here, received a call by a handler that it waits for. ` +
        'It has begun: do not await it, and return',
    ),
  )
  refusal.catch(() => undefined)
  return refusal
}
