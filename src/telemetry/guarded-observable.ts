import { Observable, type Observer, type Operator, Subscriber, type Subscription } from 'rxjs'
import { errorText } from '../errors.ts'

/**
 * An Observable whose subscribers may throw. RxJS rethrows a subscriber's error in a timer, which ends the process.
 * Here the process is warned once, and the subscriber still gets the next values. Observables that operators derive
 * from this one do the same.
 */
export class GuardedObservable<T> extends Observable<T> {
  /** RxJS's operators create their results by this. */
  override lift<R>(operator?: Operator<T, R>): Observable<R> {
    const lifted = new GuardedObservable<R>()
    lifted.source = this
    lifted.operator = operator
    return lifted
  }

  override subscribe(
    observer?: Partial<Observer<T>> | ((value: T) => void) | null,
    error?: ((error: unknown) => void) | null,
    complete?: (() => void) | null,
  ): Subscription {
    // An operator's own subscriber: its errors go on to the last one.
    if (isSubscriber(observer)) return super.subscribe(observer)
    const given = typeof observer === 'object' && observer !== null ? observer : callbacks(observer, error, complete)
    return super.subscribe(new GuardedObserver(given))
  }
}

/**
 * Whether this is a subscriber, checked as RxJS does it. An application may have its own copy of RxJS, with its own
 * class Subscriber. If one of those were wrapped, unsubscribing it would not end the subscription.
 */
function isSubscriber<T>(value: unknown): value is Subscriber<T> {
  if (value instanceof Subscriber) return true
  if (typeof value !== 'object' || value === null || !('closed' in value)) return false
  return ['next', 'error', 'complete', 'unsubscribe', 'add', 'remove'].every(
    (name) => typeof Reflect.get(value, name) === 'function',
  )
}

function callbacks<T>(
  next: ((value: T) => void) | null | undefined,
  error: ((error: unknown) => void) | null | undefined,
  complete: (() => void) | null | undefined,
): Partial<Observer<T>> {
  return { next: next ?? ignore, complete: complete ?? ignore, ...(error ? { error } : {}) }
}

function ignore(): void {}

class GuardedObserver<T> implements Observer<T> {
  readonly #observer: Partial<Observer<T>>
  #warned = false

  constructor(observer: Partial<Observer<T>>) {
    this.#observer = observer
  }

  // RxJS calls these methods without their object.
  readonly next = (value: T): void => this.#try(() => this.#observer.next?.(value))

  readonly error = (error: unknown): void =>
    this.#try(() => {
      if (this.#observer.error === undefined) throw error
      return this.#observer.error(error)
    })

  readonly complete = (): void => this.#try(() => this.#observer.complete?.())

  #try(call: () => unknown): void {
    try {
      const returned = call()
      // The function is async.
      if (returned instanceof Promise) returned.catch(this.#warn)
    } catch (error) {
      this.#warn(error)
    }
  }

  readonly #warn = (error: unknown): void => {
    if (this.#warned) return
    this.#warned = true
    const detail = error instanceof Error ? error.stack : undefined
    process.emitWarning(`A subscriber of events failed. Its next failures are not shown. ${errorText(error)}`, {
      type: 'SluiceWarning',
      ...(detail === undefined ? {} : { detail }),
    })
  }
}
