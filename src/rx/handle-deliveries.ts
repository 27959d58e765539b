import { Observable, type Observer, type OperatorFunction, Subject, takeUntil } from 'rxjs'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { integer } from '../basics/checks/options.ts'
import { checkFunction, type HandlerKind, type LeasedContext, type MessageByKind } from '../handle/handler.ts'
import { toOutcome } from '../handle/to-outcome.ts'
import type { Outcome } from '../message.ts'
import type { Delivery, DeliveryContextByKind } from './delivery.ts'

/**
 * What is to become of a delivery: its outcome, or the error with which its handler failed or was too late. Not yet
 * committed.
 */
export type Processed<Payload, In extends HandlerKind = 'transactional'> = {
  readonly message: MessageByKind<Payload>[In]
} & ({ readonly outcome: Outcome } | { readonly error: unknown })

/** A handler of single deliveries, as for a pipeline. */
export type DeliveryHandler<Payload, In extends HandlerKind = 'transactional'> = (
  message: MessageByKind<Payload>[In],
  context: DeliveryContextByKind[In],
) => Outcome | void | Promise<Outcome | void>

/**
 * Handles deliveries and settles them, `concurrency` at a time, and emits what it has settled: a result is true once
 * the batch commits, which `batch.committed` tells, and void if the batch is lost. Failures are data: a handler that
 * throws fails its delivery, and the stream continues. Completes when the source has completed and all deliveries are
 * settled. After unsubscription, emitted deliveries are still handled, because nothing else would settle them.
 *
 * @param options.concurrency handlers at a time, 1 to 100,000; by default as many as the source's demand allows
 *
 * @example sluice.deliveries('emails', { demand: 8 }).pipe(handleDeliveries(send)).subscribe()
 *
 * @throws SluiceError OPTION_INVALID
 */
export function handleDeliveries<Payload, In extends HandlerKind = 'transactional'>(
  handle: DeliveryHandler<Payload, In>,
  options: { readonly concurrency?: number } = {},
): OperatorFunction<Delivery<Payload, In>, Processed<Payload, In>> {
  checkFunction('handleDeliveries', handle)
  checkKeys('handleDeliveries', options, ['concurrency'])
  const concurrency =
    options.concurrency === undefined
      ? Number.POSITIVE_INFINITY
      : integer('handleDeliveries.concurrency', options.concurrency, 1, 1, 100_000)
  return (source) =>
    new Observable((subscriber) => {
      // Also stops a source that emits synchronously, before there is a subscription to return.
      const closed = new Subject<void>()
      subscriber.add(() => closed.next())
      return source.pipe(takeUntil(closed)).subscribe(new Handling(handle, concurrency, subscriber))
    })
}

/**
 * Handles deliveries as they come, a bounded number at a time. Not by `mergeMap`, which hangs when thousands of inner
 * observables complete synchronously (ReactiveX/rxjs#7334). What waits here is bounded by the source's demand.
 */
class Handling<Payload, In extends HandlerKind> implements Observer<Delivery<Payload, In>> {
  readonly #handle: DeliveryHandler<Payload, In>
  readonly #concurrency: number
  readonly #results: Observer<Processed<Payload, In>>
  readonly #waiting: Delivery<Payload, In>[] = []
  #running = 0
  #completed = false

  constructor(handle: DeliveryHandler<Payload, In>, concurrency: number, results: Observer<Processed<Payload, In>>) {
    this.#handle = handle
    this.#concurrency = concurrency
    this.#results = results
  }

  next(delivery: Delivery<Payload, In>): void {
    this.#waiting.push(delivery)
    this.#goOn()
  }

  error(error: unknown): void {
    this.#results.error(error)
  }

  complete(): void {
    this.#completed = true
    this.#goOn()
  }

  #goOn(): void {
    while (this.#running < this.#concurrency && this.#waiting.length > 0) {
      this.#running += 1
      void handleOne(this.#waiting.shift()!, this.#handle).then((result) => {
        this.#running -= 1
        this.#results.next(result)
        this.#goOn()
      })
    }
    if (this.#completed && this.#running === 0) this.#results.complete()
  }
}

async function handleOne<Payload, In extends HandlerKind>(
  delivery: Delivery<Payload, In>,
  handle: DeliveryHandler<Payload, In>,
): Promise<Processed<Payload, In>> {
  const { message, signal } = delivery
  try {
    // It may have waited so long for its turn that its time is up, and another claim has its message.
    signal.throwIfAborted()
    const outcome = toOutcome(await handle(message, contextOf(delivery)))
    if (delivery.settle(outcome)) return { message, outcome }
    signal.throwIfAborted()
  } catch (error) {
    if (delivery.fail(error) || signal.aborted) return { message, error }
  }
  // Its transaction() has settled it before, whatever the handler did then.
  return { message, outcome: { kind: 'ack' } }
}

function contextOf<Payload, In extends HandlerKind>(delivery: Delivery<Payload, In>): DeliveryContextByKind[In] {
  const { tx, signal } = delivery
  const context =
    tx === undefined ? leasedContextOf(delivery as unknown as Delivery<Payload, 'leased'>) : { tx, signal }
  return context as DeliveryContextByKind[In]
}

function leasedContextOf(delivery: Delivery<unknown, 'leased'>): LeasedContext {
  const { signal, idempotencyKey } = delivery
  return {
    signal,
    idempotencyKey,
    attempt: delivery.message.attempt,
    get leaseUntil() {
      return delivery.leaseUntil
    },
    extend: () => delivery.extend(),
    transaction: (work) => delivery.transaction(work),
  }
}
