import { describe, expectTypeOf, test } from 'vitest'
import * as z from 'zod'
import {
  type BatchHandlerFor,
  createSluice,
  type EventBatchHandlerFor,
  type EventHandlerFor,
  type EventMessage,
  type EventOf,
  type HandlerFor,
  type Message,
  type MessageOf,
  type PayloadOf,
  type QueueNameOf,
  queueOf,
  type Sluice,
  type StreamNameOf,
} from '../../src/index.ts'

interface Job {
  readonly url: string
  readonly tries?: number
}

const connection = 'postgres://localhost/nowhere'
const sluice = createSluice({
  connection,
  queues: { emails: { schema: z.object({ to: z.string(), copies: z.number().default(0) }) }, jobs: queueOf<Job>() },
  streams: { orders: { schema: z.object({ total: z.number().default(0) }) } },
})
const open = createSluice({ connection })

/** Checked by the compiler and never called: nothing here connects. */
const unrun = (_: () => unknown): void => undefined

describe('a Sluice', () => {
  test('with queues or without is one of any queues', () => {
    const stopAtTheEnd = (any: Sluice) => any.stop()
    unrun(() => stopAtTheEnd(sluice))
    unrun(() => stopAtTheEnd(open))
    const all: readonly Sluice[] = [sluice, open]
    unrun(() => all)
  })

  test('of any queues is not one of certain queues', () => {
    const sendLater = (certain: typeof sluice) => certain.enqueue(certain.ownTransaction, 'emails', { to: 'ada' })
    // @ts-expect-error it may have no queue of this name
    unrun(() => sendLater(open))
  })

  test('of a subset of the queues is told by its type', () => {
    const wider = (jobs: Sluice<{ readonly jobs: ReturnType<typeof queueOf<Job>> }>) =>
      jobs.enqueue(jobs.ownTransaction, 'jobs', { url: '/' })
    unrun(() => wider(sluice))
  })
})

describe('types for other files', () => {
  test('are those of the queue', () => {
    expectTypeOf<QueueNameOf<typeof sluice>>().toEqualTypeOf<'emails' | 'jobs'>()
    expectTypeOf<PayloadOf<typeof sluice, 'emails'>>().toEqualTypeOf<{ to: string; copies?: number | undefined }>()
    expectTypeOf<MessageOf<typeof sluice, 'emails'>>().toEqualTypeOf<Message<{ to: string; copies: number }>>()
    expectTypeOf<PayloadOf<typeof open, 'anything'>>().toBeUnknown()
    // @ts-expect-error no such queue
    type _None = PayloadOf<typeof sluice, 'email'>
  })

  test('make a handler that the pipeline takes', () => {
    const send: HandlerFor<typeof sluice, 'emails'> = async ({ payload }, { enqueue }) => {
      expectTypeOf(payload).toEqualTypeOf<{ to: string; copies: number }>()
      unrun(() => enqueue('jobs', { url: '/' }))
      // @ts-expect-error no such queue
      unrun(() => enqueue('job', { url: '/' }))
    }
    const sendAll: BatchHandlerFor<typeof sluice, 'emails'> = (messages) => {
      expectTypeOf(messages).toEqualTypeOf<readonly MessageOf<typeof sluice, 'emails'>[]>()
    }
    unrun(() => sluice.pipeline('emails').handle(send))
    unrun(() => sluice.pipeline('emails').handleBatch(sendAll))
    // @ts-expect-error the payload of another queue
    unrun(() => sluice.pipeline('jobs').handle(send))
  })
})

describe('types of streams for other files', () => {
  test('are those of the events as a group gets them', () => {
    expectTypeOf<StreamNameOf<typeof sluice>>().toEqualTypeOf<'orders'>()
    expectTypeOf<EventOf<typeof sluice, 'orders'>>().toEqualTypeOf<EventMessage<{ total: number }>>()
    expectTypeOf<EventOf<typeof open, 'anything'>>().toEqualTypeOf<EventMessage>()
    // @ts-expect-error a queue is no stream
    type _None = EventOf<typeof sluice, 'emails'>
  })

  test('make a handler that the pipeline of a group takes', () => {
    const bill: EventHandlerFor<typeof sluice, 'orders'> = async ({ payload, position, stream }, { tx, enqueue }) => {
      expectTypeOf(payload).toEqualTypeOf<{ total: number }>()
      await tx.query('INSERT INTO invoice VALUES ($1, $2)', [stream, position.toFixed()])
      await enqueue('jobs', { url: '/' })
    }
    const billAll: EventBatchHandlerFor<typeof sluice, 'orders'> = (events) => {
      expectTypeOf(events).toEqualTypeOf<readonly EventOf<typeof sluice, 'orders'>[]>()
    }
    unrun(() => sluice.pipeline('orders', { group: 'billing' }).handle(bill))
    unrun(() => sluice.pipeline('orders', { group: 'billing' }).handleBatch(billAll))
    // @ts-expect-error a message of a queue has no position
    unrun(() => sluice.pipeline('emails').handle(bill))
  })
})

describe('a queue with a type and no schema', () => {
  test('has it on the way in and on the way out', () => {
    expectTypeOf<PayloadOf<typeof sluice, 'jobs'>>().toEqualTypeOf<Job>()
    sluice.pipeline('jobs').handle(({ payload }) => expectTypeOf(payload).toEqualTypeOf<Job>() as never)
    unrun(() => sluice.enqueue(sluice.ownTransaction, 'jobs', { url: '/', tries: 1 }))
    // @ts-expect-error the type wants a string
    unrun(() => sluice.enqueue(sluice.ownTransaction, 'jobs', { url: 5 }))
    // @ts-expect-error the type wants a url
    unrun(() => sluice.enqueue(sluice.ownTransaction, 'jobs', {}))
  })
})
