import { type Context, context } from '@opentelemetry/api'
import type { Guard } from './guard.ts'

/**
 * Runs work within a context, exactly once, and comes to what the work comes to, whatever the context manager does: it may
 * throw before or after the call, call twice, later or never, and return something else.
 */
export function runWithin<T>(guard: Guard, within: Context, work: () => T): T {
  const once = new Once(work)
  guard.try(() => context.with(within, () => once.run()))
  once.run()
  return once.result()
}

class Once<T> {
  #work: (() => T) | undefined
  #value: T | undefined
  #hasThrown = false
  #thrown: unknown

  constructor(work: () => T) {
    this.#work = work
  }

  run(): void {
    const work = this.#work
    if (work === undefined) return
    this.#work = undefined
    try {
      this.#value = work()
    } catch (error) {
      this.#hasThrown = true
      this.#thrown = error
    }
  }

  result(): T {
    if (this.#hasThrown) throw this.#thrown
    return this.#value as T
  }
}
