import { AsyncLocalStorage } from 'node:async_hooks'
import { SluiceError } from '../errors.ts'
import type { Meter } from '../statistics/meter.ts'

/** A call of a handler, as far as what it calls needs to know. Not the call itself: timers and sockets keep this. */
export interface Inside {
  /** Of the consumer whose handler it is. */
  readonly meter: Meter
  readonly time: { readonly isOver: boolean }
}

/** In which call of a handler we are. */
const calls = new AsyncLocalStorage<Inside | undefined>()

/** Calls a handler, so that what it calls can find out. */
export function runInside<Handed, Context>(
  inside: Inside,
  handle: (handed: Handed, context: Context) => unknown,
  handed: Handed,
  context: Context,
): unknown {
  return calls.run(inside, handle, handed, context)
}

/** The consumer in whose handler we are, while that runs. */
export function meterInside(): Meter | undefined {
  const inside = calls.getStore()
  return inside === undefined || inside.time.isOver ? undefined : inside.meter
}

/**
 * Begins what ends only with the handler in which we are. What it resolves with cannot be awaited there: its promise rejects at
 * once. A handler that does not await it is right, so this rejection ends no process.
 */
export function refuseToAwait<T>(call: string, begin: () => Promise<T>): Promise<T> {
  calls.run(undefined, begin).catch(() => undefined)
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
