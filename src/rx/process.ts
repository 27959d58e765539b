import { Observable, type OperatorFunction, Subject, takeUntil } from 'rxjs'
import { checkKeys } from '../basics/check-keys.ts'
import { integer } from '../config.ts'
import { checkFunction, toOutcome } from '../handle/handler.ts'
import type { HandlerTransaction } from '../handle/transaction/message-transaction.ts'
import type { Message, Outcome } from '../message.ts'
import type { Delivery } from './delivery.ts'

/**
 * What is to become of a delivery: its outcome, or the error with which its handler failed or was too late. Not yet
 * committed.
 */
export type Processed<Payload> = { readonly message: Message<Payload> } & (
  | { readonly outcome: Outcome }
  | { readonly error: unknown }
)

/** A handler of single deliveries, as for a pipeline. */
export type DeliveryHandler<Payload> = (
  message: Message<Payload>,
  context: { readonly tx: HandlerTransaction; readonly signal: AbortSignal },
) => Outcome | void | Promise<Outcome | void>

/**
 * Handles deliveries and settles them, `concurrency` at a time, and emits what it has settled: a result is true once the
 * batch commits, which `batch.committed` tells, and void if the batch is lost. Failures are data: a handler that throws
 * fails its delivery, and the stream goes on. Completes when the source has completed and all in hand is settled. After
 * unsubscription what is in hand is still handled, because nobody else would settle it.
 *
 * @param options.concurrency handlers at a time, 1 to 100,000; by default as many as the source's demand allows
 *
 * @example sluice.deliveries('emails', { demand: 8 }).pipe(process(send)).subscribe()
 *
 * @throws SluiceError OPTION_INVALID
 */
export function process<Payload>(
  handle: DeliveryHandler<Payload>,
  options: { readonly concurrency?: number } = {},
): OperatorFunction<Delivery<Payload>, Processed<Payload>> {
  checkFunction('process', handle)
  checkKeys('process', options, ['concurrency'])
  const concurrency =
    options.concurrency === undefined
      ? Number.POSITIVE_INFINITY
      : integer('process.concurrency', options.concurrency, 1, 1, 100_000)
  return (source) =>
    new Observable((subscriber) => {
      // Not by `mergeMap`, which hangs when thousands of inner observables complete synchronously (ReactiveX/rxjs#7334).
      // What waits here is bounded by the source's demand.
      const waiting: Delivery<Payload>[] = []
      let running = 0
      let completed = false
      const pump = () => {
        while (running < concurrency && waiting.length > 0) {
          running += 1
          void handleOne(waiting.shift()!, handle).then((result) => {
            running -= 1
            subscriber.next(result)
            pump()
          })
        }
        if (completed && running === 0) subscriber.complete()
      }
      // Also stops a source that emits synchronously, before there is a subscription to return.
      const closed = new Subject<void>()
      subscriber.add(() => closed.next())
      return source.pipe(takeUntil(closed)).subscribe({
        next: (delivery) => {
          waiting.push(delivery)
          pump()
        },
        error: (error: unknown) => subscriber.error(error),
        complete: () => {
          completed = true
          pump()
        },
      })
    })
}

async function handleOne<Payload>(
  delivery: Delivery<Payload>,
  handle: DeliveryHandler<Payload>,
): Promise<Processed<Payload>> {
  const { message } = delivery
  try {
    // It may have waited so long for its turn that its time is up, and its message somebody else's.
    delivery.signal.throwIfAborted()
    const outcome = toOutcome(await handle(message, { tx: delivery.tx, signal: delivery.signal }))
    if (!delivery.settle(outcome)) delivery.signal.throwIfAborted()
    return { message, outcome }
  } catch (error) {
    delivery.fail(error)
    return { message, error }
  }
}
