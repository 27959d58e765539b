import type { HandlerKind } from '../handle/handler.ts'
import type { Delivery } from './delivery.ts'
import type { DeliverySink, Feed } from './feed.ts'

type NextDelivery<Payload, In extends HandlerKind> = IteratorResult<Delivery<Payload, In>, void>

/**
 * What `for await` reads. A generator would not do: its `return()` waits for a `next()` that waits for a message, for
 * ever if none comes.
 */
export class DeliveryLoop<Payload, In extends HandlerKind>
  implements AsyncGenerator<Delivery<Payload, In>, void, undefined>
{
  readonly #createFeed: (sink: DeliverySink<Payload, In>) => Feed<Payload, In>
  readonly #arrived: Delivery<Payload, In>[] = []
  readonly #waiting: PromiseWithResolvers<NextDelivery<Payload, In>>[] = []
  #feed: Feed<Payload, In> | undefined
  /** Set when nothing more comes. */
  #end: { readonly error?: unknown } | undefined

  /** `createFeed` begins to consume: with the first `next()`. */
  constructor(createFeed: (sink: DeliverySink<Payload, In>) => Feed<Payload, In>) {
    this.#createFeed = createFeed
  }

  async next(): Promise<NextDelivery<Payload, In>> {
    if (this.#end === undefined) this.#feed ??= this.#createFeed(this.#sink)
    for (let next = this.#arrived.shift(); next !== undefined; next = this.#arrived.shift()) {
      if (!next.signal.aborted) return { done: false, value: next }
    }
    if (this.#end !== undefined) return this.#over(this.#end)
    const waiting = Promise.withResolvers<NextDelivery<Payload, In>>()
    this.#waiting.push(waiting)
    return waiting.promise
  }

  /** Gives back all that is not settled, and resolves when it is free. */
  async return(): Promise<NextDelivery<Payload, In>> {
    this.#arrived.length = 0
    this.#finish({})
    await this.#feed?.stop()
    return OVER
  }

  async throw(error: unknown): Promise<NextDelivery<Payload, In>> {
    await this.return()
    throw error
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  get #sink(): DeliverySink<Payload, In> {
    return {
      next: (delivery) => this.#arrive(delivery),
      error: (error: unknown) => this.#finish({ error }),
      complete: () => this.#finish({}),
    }
  }

  #arrive(delivery: Delivery<Payload, In>): void {
    const first = this.#waiting.shift()
    if (first === undefined) this.#arrived.push(delivery)
    else first.resolve({ done: false, value: delivery })
  }

  #finish(end: { readonly error?: unknown }): void {
    this.#end ??= end
    for (const waiting of this.#waiting.splice(0)) waiting.resolve(this.#over(this.#end))
  }

  /** The end; an error is thrown once. */
  async #over(end: { readonly error?: unknown }): Promise<NextDelivery<Payload, In>> {
    this.#end = {}
    if ('error' in end) throw end.error
    return OVER
  }
}

const OVER = { done: true, value: undefined } as const
