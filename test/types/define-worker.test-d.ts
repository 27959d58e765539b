import { describe, expectTypeOf, test } from 'vitest'
import {
  createSluice,
  type Destination,
  defineWorker,
  type EventMessage,
  type HandlerTransaction,
  type LeasedContext,
  type Message,
  queueOf,
  type Receiver,
} from '../../src/index.ts'

interface Report {
  readonly url: string
}

const sluice = createSluice({ connection: '', queues: { reports: queueOf<Report>(), mails: {} } })

describe('the handlers of a worker', () => {
  test('get the payload of their queue and the context of their mode, whether they are alone, with options, or of batches', () => {
    defineWorker(sluice, {
      mails: async ({ payload }, { tx }) => {
        expectTypeOf(payload).toEqualTypeOf<unknown>()
        expectTypeOf(tx).toEqualTypeOf<HandlerTransaction>()
      },
      reports: {
        mode: 'leased',
        lease: '1m',
        handle: async ({ payload }, context) => {
          expectTypeOf(payload).toEqualTypeOf<Report>()
          expectTypeOf(context).toEqualTypeOf<LeasedContext>()
        },
      },
    })
    defineWorker(sluice, {
      reports: {
        mode: 'transactional',
        batchSize: 100,
        handleBatch: async (messages, { tx }) => {
          expectTypeOf(messages).toEqualTypeOf<readonly Message<Report>[]>()
          expectTypeOf(tx).toEqualTypeOf<HandlerTransaction>()
        },
      },
    })
    defineWorker({
      any: {
        mode: 'transactional',
        concurrency: 4,
        handle: async ({ payload }, { tx }) => {
          expectTypeOf(payload).toEqualTypeOf<unknown>()
          expectTypeOf(tx).toEqualTypeOf<HandlerTransaction>()
        },
      },
    })
  })

  test('of a group get the events of their stream', () => {
    const streams = { orders: queueOf<Report>() }
    defineWorker(createSluice({ connection: '', queues: { mails: {} }, streams }), {
      mails: async ({ payload }) => void expectTypeOf(payload).toEqualTypeOf<unknown>(),
      'orders:billing': {
        mode: 'group',
        handle: async (event, { tx }) => {
          expectTypeOf(event).toEqualTypeOf<EventMessage<Report>>()
          expectTypeOf(tx).toEqualTypeOf<HandlerTransaction>()
        },
      },
    })
    defineWorker(createSluice({ connection: '', streams }), {
      'orders:report': {
        mode: 'group',
        batchSize: 500,
        handleBatch: async (events) => void expectTypeOf(events).toEqualTypeOf<readonly EventMessage<Report>[]>(),
      },
    })
    defineWorker({
      'any:group': {
        mode: 'group',
        handle: async (event) => void expectTypeOf(event).toEqualTypeOf<EventMessage<unknown>>(),
      },
    })
    const typed = createSluice({ connection: '', queues: {}, streams })
    // @ts-expect-error no such stream
    defineWorker(typed, { 'ordres:x': { mode: 'group', handle: () => undefined } })
    const to = {} as Destination
    defineWorker(typed, { 'orders:x': { mode: 'group', to, confirmTimeout: '1s' } })
    // @ts-expect-error a handler or a destination
    defineWorker(typed, { 'orders:x': { mode: 'group', to, handle: () => undefined } })

    // @ts-expect-error events have no lease
    defineWorker({ 'orders:x': { mode: 'group', lease: '1m', handle: () => undefined } })
  })

  test('get what an inbox brings to their queue, which may have none of them', () => {
    const inbox = { from: {} as Receiver, batchSize: 500 }
    defineWorker(sluice, {
      mails: { inbox },
      reports: {
        mode: 'leased',
        inbox,
        handle: async ({ payload }, context) => {
          expectTypeOf(payload).toEqualTypeOf<Report>()
          expectTypeOf(context).toEqualTypeOf<LeasedContext>()
        },
      },
    })
    defineWorker({ any: { mode: 'relay', to: {} as Destination, inbox } })
    // @ts-expect-error an inbox receives from somewhere
    defineWorker(sluice, { mails: { inbox: {} } })
    // @ts-expect-error a group reads a stream
    defineWorker({ 'orders:x': { mode: 'group', inbox, handle: () => undefined } })
  })

  test('are of queues that the Sluice has, with options of their mode, and are one per queue', () => {
    // @ts-expect-error no such queue
    defineWorker(sluice, { orders: async () => undefined })
    // @ts-expect-error a lease is for leased mode
    defineWorker(sluice, { mails: { mode: 'transactional', lease: '1m', handle: async () => undefined } })
    const both = { mode: 'transactional', handle: async () => undefined, handleBatch: async () => undefined } as const
    // @ts-expect-error either one by one or in batches
    defineWorker(sluice, { mails: both })
  })
})
