import { Observable } from 'rxjs'
import type { StreamEvent } from '../../table/stream/read-events.ts'

/** Reads page by page until the signal aborts. */
export type ReadPages = (signal: AbortSignal) => AsyncGenerator<readonly StreamEvent[], void, undefined>

/**
 * Events of a stream as an AsyncIterable, and as an Observable of the same. Cold: every subscriber, and every loop, reads for
 * itself. A loop reads the next page when it has used up the last; an Observable emits as fast as it reads.
 */
export class StreamEvents<Payload>
  extends Observable<StreamEvent<Payload>>
  implements AsyncIterable<StreamEvent<Payload>>
{
  readonly #read: ReadPages
  readonly #signal: AbortSignal | undefined

  constructor(read: ReadPages, signal?: AbortSignal) {
    super((subscriber) => {
      const leaving = new AbortController()
      const emit = async () => {
        for await (const page of read(endOf(leaving, signal))) {
          for (const event of page) subscriber.next(event as StreamEvent<Payload>)
          if (leaving.signal.aborted) return
        }
      }
      emit().then(
        () => subscriber.complete(),
        (error: unknown) => subscriber.error(error),
      )
      return () => leaving.abort()
    })
    this.#read = read
    this.#signal = signal
  }

  [Symbol.asyncIterator](): AsyncGenerator<StreamEvent<Payload>, void, undefined> {
    return new EventLoop<Payload>(this.#read, this.#signal)
  }
}

function endOf(leaving: AbortController, signal: AbortSignal | undefined): AbortSignal {
  return signal === undefined ? leaving.signal : AbortSignal.any([leaving.signal, signal])
}

/** What `for await` reads. The `return()` of a generator would wait for a `next()` that follows a quiet stream. */
class EventLoop<Payload> implements AsyncGenerator<StreamEvent<Payload>, void, undefined> {
  readonly #leaving = new AbortController()
  readonly #pages: AsyncGenerator<readonly StreamEvent[], void, undefined>
  #page: readonly StreamEvent[] = []
  #at = 0
  #turn: Promise<unknown> = Promise.resolve()

  constructor(read: ReadPages, signal: AbortSignal | undefined) {
    this.#pages = read(endOf(this.#leaving, signal))
  }

  next(): Promise<IteratorResult<StreamEvent<Payload>, void>> {
    const next = this.#turn.then(() => this.#take())
    this.#turn = next.catch(() => undefined)
    return next
  }

  async #take(): Promise<IteratorResult<StreamEvent<Payload>, void>> {
    while (this.#at >= this.#page.length) {
      const { done, value } = await this.#pages.next()
      if (done === true || this.#leaving.signal.aborted) return OVER
      this.#page = value
      this.#at = 0
    }
    const event = this.#page[this.#at]
    this.#at += 1
    return event === undefined ? OVER : { done: false, value: event as StreamEvent<Payload> }
  }

  async return(): Promise<IteratorResult<StreamEvent<Payload>, void>> {
    this.#leaving.abort()
    this.#page = []
    await this.#pages.return()
    return OVER
  }

  async throw(error: unknown): Promise<IteratorResult<StreamEvent<Payload>, void>> {
    await this.return()
    throw error
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  [Symbol.asyncIterator](): this {
    return this
  }
}

const OVER = { done: true, value: undefined } as const
