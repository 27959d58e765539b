import { EMPTY, from, NEVER, type Observable, of, Subject, takeUntil, tap } from 'rxjs'
import { describe, expect, test } from 'vitest'
import { SluiceError } from '../../../src/errors.ts'
import { deadLetter, type Outcome, retryLater } from '../../../src/message.ts'
import type { Delivery } from '../../../src/rx/delivery.ts'
import { type DeliveryHandler, handleDeliveries, type Processed } from '../../../src/rx/handle-deliveries.ts'
import { deliveryOf, type FakeDelivery } from '../../support/fake-delivery.ts'
import { marbles } from '../../support/marbles.ts'
import { refusalOf } from '../../support/refusal.ts'
import { deferred } from '../../support/wait.ts'

/** Runs a source through `process` and notes what comes out, in order. */
function collect(source: Observable<Delivery<string>>, handle: DeliveryHandler<string>, concurrency?: number) {
  const log: unknown[] = []
  const ended = deferred()
  const operator = handleDeliveries(handle, concurrency === undefined ? {} : { concurrency })
  const subscription = source.pipe(operator).subscribe({
    next: (processed) => log.push(inShort(processed)),
    error: (error: unknown) => {
      log.push(error)
      ended.resolve()
    },
    complete: () => {
      log.push('complete')
      ended.resolve()
    },
  })
  return { log, ended: ended.promise, subscription }
}

function inShort(processed: Processed<string>): string {
  const { payload } = processed.message
  return 'outcome' in processed ? `${payload}: ${processed.outcome.kind}` : `${payload}: ${String(processed.error)}`
}

/** A handler each call of which ends when the test says so. */
function byHand() {
  const calls: { readonly payload: string; readonly end: PromiseWithResolvers<Outcome | void> }[] = []
  const handle: DeliveryHandler<string> = (message) => {
    const end = deferred<Outcome | void>()
    calls.push({ payload: message.payload, end })
    return end.promise
  }
  return { calls, handle, running: () => calls.map((call) => call.payload) }
}

const settled = (deliveries: readonly FakeDelivery[]) => deliveries.map(({ settlements }) => settlements)
const aMoment = () => new Promise((resolve) => setImmediate(resolve))

describe('handleDeliveries', () => {
  test('settles by what the handler returns, and hands the message, tx and signal on', async () => {
    const deliveries = ['a', 'b', 'c'].map((payload) => deliveryOf(payload))
    const seen: unknown[] = []
    const { log, ended } = collect(from(deliveries), (message, context) => {
      seen.push([message.payload, context])
      if (message.payload === 'b') return retryLater({ after: '5s' })
      return message.payload === 'c' ? Promise.resolve(deadLetter('no')) : undefined
    })
    await ended
    expect(log).toEqual(['a: ack', 'b: retryLater', 'c: deadLetter', 'complete'])
    expect(settled(deliveries)).toEqual([
      [{ outcome: { kind: 'ack' } }],
      [{ outcome: { kind: 'retryLater', afterMs: 5_000 } }],
      [{ outcome: { kind: 'deadLetter', reason: 'no' } }],
    ])
    const [first] = deliveries
    expect(seen[0]).toEqual(['a', { tx: first?.tx, signal: first?.signal }])
  })

  test('takes failures as data: by a throw, a rejection, and a result that is no outcome', async () => {
    const deliveries = ['throws', 'rejects', 'errs', 'works'].map((payload) => deliveryOf(payload))
    const failure = new Error('broken')
    const { log, ended } = collect(from(deliveries), (message) => {
      if (message.payload === 'throws') throw failure
      if (message.payload === 'rejects') return Promise.reject(failure)
      if (message.payload === 'errs') return { done: true } as unknown as Outcome
      return undefined
    })
    await ended
    expect(log).toEqual([
      'throws: Error: broken',
      'rejects: Error: broken',
      expect.stringMatching(/^errs: SluiceError: The handler's result: expected nothing, ack/),
      'works: ack',
      'complete',
    ])
    expect(settled(deliveries).slice(0, 2)).toEqual([[{ error: failure }], [{ error: failure }]])
  })

  test('says that a handler was too late, instead of an outcome that did not count', async () => {
    const late = deliveryOf('late')
    const { log, ended } = collect(of(late), () => {
      late.abort(new SluiceError('HANDLER_TIMEOUT', 'too late'))
      return undefined
    })
    await ended
    expect(log).toEqual(['late: SluiceError: too late', 'complete'])
    expect(late.settlements).toEqual([])
  })

  test('is silent on a source that is, and completes with one that is empty', async () => {
    const never = collect(NEVER, () => undefined)
    const empty = collect(EMPTY, () => undefined)
    await aMoment()
    expect(never.log).toEqual([])
    expect(empty.log).toEqual(['complete'])
    marbles(({ cold, expectObservable }) => {
      expectObservable(cold<Delivery>('---|').pipe(handleDeliveries(() => undefined))).toBe('---|')
    })
  })

  test.each([1, 2, 3])('handles at most %i at a time, in the order in which they arrive', async (concurrency) => {
    const { calls, handle, running } = byHand()
    const { log, ended } = collect(from(['a', 'b', 'c', 'd', 'e'].map((p) => deliveryOf(p))), handle, concurrency)
    for (let done = 0; done < 5; done += 1) {
      expect(running()).toEqual(['a', 'b', 'c', 'd', 'e'].slice(0, done + concurrency))
      calls[done]?.end.resolve()
      await aMoment()
    }
    await ended
    expect(log).toEqual(['a: ack', 'b: ack', 'c: ack', 'd: ack', 'e: ack', 'complete'])
  })

  test('handles as many at a time as come, without a limit', () => {
    const { handle, running } = byHand()
    collect(from(Array.from({ length: 500 }, (_, at) => deliveryOf(String(at)))), handle)
    expect(running()).toHaveLength(500)
  })

  test('emits results in the order in which the handlers end', async () => {
    const { calls, handle } = byHand()
    const { log, ended } = collect(of(deliveryOf('a'), deliveryOf('b')), handle, 2)
    calls[1]?.end.resolve()
    await aMoment()
    calls[0]?.end.reject(new Error('broken'))
    await ended
    expect(log).toEqual(['b: ack', 'a: Error: broken', 'complete'])
  })

  test('completes only when all that is in hand is settled', async () => {
    const { calls, handle } = byHand()
    const { log, ended } = collect(of(deliveryOf('a'), deliveryOf('b')), handle, 1)
    await aMoment()
    expect(log).toEqual([])
    calls[0]?.end.resolve()
    await aMoment()
    expect(log).toEqual(['a: ack'])
    calls[1]?.end.resolve()
    await ended
    expect(log).toEqual(['a: ack', 'b: ack', 'complete'])
  })

  test("passes the source's error on at once, and still settles what is in hand", async () => {
    const { calls, handle } = byHand()
    const deliveries = [deliveryOf('a'), deliveryOf('b')]
    const source = new Subject<Delivery<string>>()
    const broken = new Error('the pipeline cannot go on')
    const { log } = collect(source, handle, 1)
    for (const delivery of deliveries) source.next(delivery)
    source.error(broken)
    expect(log).toEqual([broken])
    calls[0]?.end.resolve()
    await aMoment()
    calls[1]?.end.resolve()
    await aMoment()
    expect(log).toEqual([broken])
    expect(settled(deliveries)).toEqual([[{ outcome: { kind: 'ack' } }], [{ outcome: { kind: 'ack' } }]])
  })

  test('lets go of the source when unsubscribed, and still settles what is in hand', async () => {
    const { calls, handle, running } = byHand()
    const deliveries = [deliveryOf('a'), deliveryOf('b')]
    const source = new Subject<Delivery<string>>()
    const { log, subscription } = collect(source, handle, 1)
    for (const delivery of deliveries) source.next(delivery)
    subscription.unsubscribe()
    expect(source.observed).toBe(false)
    calls[0]?.end.resolve()
    await aMoment()
    expect(running()).toEqual(['a', 'b'])
    calls[1]?.end.resolve()
    await aMoment()
    expect(settled(deliveries)).toEqual([[{ outcome: { kind: 'ack' } }], [{ outcome: { kind: 'ack' } }]])
    expect(log).toEqual([])
  })

  test('gets through 10,000 deliveries that arrive and end synchronously', async () => {
    const deliveries = Array.from({ length: 10_000 }, (_, at) => deliveryOf(String(at)))
    for (const concurrency of [1, 7, undefined]) {
      const { log, ended } = collect(from(deliveries), () => undefined, concurrency)
      await ended
      expect(log).toHaveLength(10_001)
      expect(log.slice(-2)).toEqual(['9999: ack', 'complete'])
    }
  })

  test('takes no more from a synchronous source once nobody listens', () => {
    const deliveries = Array.from({ length: 100 }, (_, at) => deliveryOf(String(at)))
    const enough = new Subject<void>()
    let emitted = 0
    from(deliveries)
      .pipe(
        tap(() => {
          emitted += 1
        }),
        handleDeliveries((message) => (message.payload === '2' ? enough.next() : undefined)),
        takeUntil(enough),
      )
      .subscribe()
    expect(emitted).toBe(3)
  })

  test.each([
    [
      { concurrency: 0 },
      'OPTION_INVALID: handleDeliveries.concurrency: expected an integer from 1 to 100000, received 0',
    ],
    [
      { concurrency: 1.5 },
      'OPTION_INVALID: handleDeliveries.concurrency: expected an integer from 1 to 100000, received 1.5',
    ],
    [{ parallel: 2 }, 'OPTION_INVALID: handleDeliveries: expected only the options concurrency, received "parallel"'],
  ])('refuses %o', (options: object, refusal) => {
    expect(refusalOf(() => handleDeliveries(() => undefined, options))).toBe(refusal)
  })
})
