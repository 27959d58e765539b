import type { Transaction } from 'kysely'
import type { PoolClient } from 'pg'
import type { Observable } from 'rxjs'
import { describe, expectTypeOf, test } from 'vitest'
import * as z from 'zod'
import {
  ack,
  type Claim,
  createSluice,
  type DeadLetter,
  type DedupedOptions,
  type Deliveries,
  type Delivery,
  type Destination,
  type Drained,
  type EnqueueOptions,
  type EnqueueResult,
  groupWithin,
  type Handler,
  type HandlerContext,
  type HandlerFor,
  handleDeliveries,
  type ListedMessage,
  type Message,
  type MessagePage,
  type MessageStatus,
  type Outcome,
  type Processed,
  queueOf,
  type RunningPipeline,
  retryLater,
  routes,
  type SluiceEvent,
} from '../../src/index.ts'

const sluice = createSluice({
  connection: 'postgres://localhost/nowhere',
  queues: {
    mails: { schema: z.object({ to: z.string(), tries: z.number().default(0) }) },
    dates: { schema: z.string().transform((text) => new Date(text)) },
    plain: {},
  },
})
const open = createSluice({ connection: { host: 'localhost' } })

interface Mail {
  to: string
  tries: number
}

/** Checked by the compiler and never called: nothing here connects. */
type Check = () => unknown
const unrun = (_: Check): void => undefined

describe('a pipeline', () => {
  test("gives its handler the schema's output", () => {
    sluice.pipeline('mails').handle((message) => {
      expectTypeOf(message).toEqualTypeOf<Message<Mail>>()
    })
    sluice.pipeline('dates').handle(({ payload }) => expectTypeOf(payload).toEqualTypeOf<Date>() as never)
    sluice.pipeline('plain').handle(({ payload }) => expectTypeOf(payload).toBeUnknown() as never)
    open.pipeline('anything').handle(({ payload }) => expectTypeOf(payload).toBeUnknown() as never)
  })

  test('gives its batch handler messages and a context without an attempt', () => {
    sluice.pipeline('mails').handleBatch((messages, context) => {
      expectTypeOf(messages).toEqualTypeOf<readonly Message<Mail>[]>()
      expectTypeOf(context).not.toHaveProperty('attempt')
      expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>()
      return messages.map(() => ack())
    })
  })

  test('exists for the queues defined, or for any name', () => {
    unrun(() => sluice.pipeline('dates'))
    unrun(() => open.pipeline('any'))
    // @ts-expect-error no such queue
    unrun(() => sluice.pipeline('other'))
    // @ts-expect-error in leased mode neither
    unrun(() => sluice.pipeline('other', { mode: 'leased' }))
    // With a group it is a stream.
    unrun(() => sluice.pipeline('other', { group: 'billing' }))
  })

  test('takes outcomes from its handler, and nothing else', () => {
    const pipeline = sluice.pipeline('mails')
    pipeline.handle(() => undefined)
    pipeline.handle(async () => retryLater({ after: '5m' }))
    pipeline.handle((message): Outcome | undefined => (message.attempt > 3 ? retryLater() : undefined))
    // @ts-expect-error a result that is no outcome
    pipeline.handle(() => 'done')
    // @ts-expect-error a promise of something that is no outcome
    pipeline.handle(async () => ({ done: true }))
    // @ts-expect-error one outcome for a whole batch
    pipeline.handleBatch(() => ack())
  })

  test('refuses options that do not exist', () => {
    unrun(() => sluice.pipeline('mails', { concurrency: 4, retry: { kind: 'fixed', delay: '5s' }, timeout: '1m' }))
    // @ts-expect-error no such option
    unrun(() => sluice.pipeline('mails', { parallel: 4 }))
    // @ts-expect-error a retry without its kind
    unrun(() => sluice.pipeline('mails', { retry: { delay: '5s' } }))
    // @ts-expect-error no such unit
    unrun(() => sluice.pipeline('mails', { timeout: '5 minutes' }))
  })

  test('is subscribed, drained and stopped', () => {
    const pipeline = sluice.pipeline('mails').handle(() => undefined)
    expectTypeOf(pipeline.subscribe).returns.toEqualTypeOf<RunningPipeline>()
    expectTypeOf<RunningPipeline['drain']>().returns.resolves.toEqualTypeOf<Drained>()
    expectTypeOf<RunningPipeline['ended']>().toEqualTypeOf<Promise<void>>()
    expectTypeOf<RunningPipeline['events']>().toEqualTypeOf<Observable<SluiceEvent>>()
    // @ts-expect-error without a handler there is nothing to subscribe
    unrun(() => sluice.pipeline('mails').subscribe())
  })
})

describe("a handler's context", () => {
  test('has the transaction, the signal, the attempt, and an enqueue that knows the queues', () => {
    sluice.pipeline('mails').handle((_message, context) => {
      expectTypeOf(context.tx.client).toEqualTypeOf<PoolClient>()
      expectTypeOf(context.tx.kysely<{ user: { id: string } }>()).toEqualTypeOf<Transaction<{ user: { id: string } }>>()
      expectTypeOf(context.attempt).toEqualTypeOf<number>()
      unrun(() => context.enqueue('mails', { to: 'ada@example.com' }, { priority: 1 }))
      // @ts-expect-error the schema wants a string
      unrun(() => context.enqueue('mails', { to: 5 }))
      // @ts-expect-error no such queue
      unrun(() => context.enqueue('mail', { to: 'ada@example.com' }))
      // @ts-expect-error no such option
      unrun(() => context.enqueue('mails', { to: 'ada@example.com' }, { prio: 1 }))
    })
  })

  test('without definitions enqueues anything anywhere', () => {
    open.pipeline('anything').handle((_message, context) => {
      expectTypeOf(context).toEqualTypeOf<HandlerContext>()
      unrun(() => context.enqueue('elsewhere', ['anything']))
    })
  })

  test('a handler for any payload fits every pipeline', () => {
    const log: Handler = (message) => expectTypeOf(message.payload).toBeUnknown() as never
    open.pipeline('anything').handle(log)
  })
})

describe('enqueue', () => {
  test("takes the schema's input, and returns the id", () => {
    expectTypeOf(sluice.enqueue<'mails'>)
      .parameter(2)
      .toEqualTypeOf<{ to: string; tries?: number | undefined }>()
    const tx = {} as PoolClient
    const mail = { to: 'ada@example.com' }
    unrun(() => expectTypeOf(sluice.enqueue(tx, 'mails', mail)).resolves.toEqualTypeOf<string>())
    unrun(() => expectTypeOf(sluice.enqueueMany(tx, 'mails', [{ payload: mail }])).resolves.toEqualTypeOf<string[]>())
    unrun(() => sluice.enqueue(tx, 'mails', { to: 'ada@example.com' }))
    unrun(() => sluice.enqueue(sluice.ownTransaction, 'dates', '2030-01-01'))
    const own = sluice.ownTransaction
    unrun(() => sluice.enqueue(own, 'dates', '2030-01-01'))
    unrun(() => sluice.enqueueMany(tx, 'mails', [{ payload: { to: 'ada@example.com' }, delay: '5m' }]))
    // @ts-expect-error the schema wants a string
    unrun(() => sluice.enqueue(tx, 'mails', { to: 5 }))
    // @ts-expect-error the input, not the output
    unrun(() => sluice.enqueue(tx, 'dates', new Date()))
    // @ts-expect-error no such queue
    unrun(() => sluice.enqueue(tx, 'mail', { to: 'ada@example.com' }))
    // @ts-expect-error the payload of another queue
    unrun(() => sluice.enqueueMany(tx, 'mails', [{ payload: '2030-01-01' }]))
  })
})

describe('enqueue with a dedupe key', () => {
  const tx = {} as PoolClient
  const mail = { to: 'ada@example.com' }
  const dedupe = { key: 'ada', for: '10m', onDuplicate: 'requeue' } as const

  test('returns what became of the message, here and in a handler', () => {
    unrun(() => expectTypeOf(sluice.enqueue(tx, 'mails', mail, { dedupe })).resolves.toEqualTypeOf<EnqueueResult>())
    const many = () => sluice.enqueueMany(tx, 'mails', [{ payload: mail, dedupe }])
    unrun(() => expectTypeOf(many()).resolves.toEqualTypeOf<EnqueueResult[]>())
    sluice.pipeline('mails').handle((_message, { enqueue }) => {
      unrun(() => expectTypeOf(enqueue('mails', mail, { dedupe })).resolves.toEqualTypeOf<EnqueueResult>())
      unrun(() => expectTypeOf(enqueue('mails', mail)).resolves.toEqualTypeOf<string>())
    })
  })

  test('keeps the literals of what `map` makes of a list, with a key and without', () => {
    const list = ['ada@example.com']
    const keyed = () => {
      const messages = list.map(
        (to) => ({ payload: { to }, dedupe: { key: to, for: '5m', onDuplicate: 'update' } }) as const,
      )
      return sluice.enqueueMany(tx, 'mails', messages)
    }
    const inline = () =>
      sluice.enqueueMany(
        tx,
        'mails',
        list.map((to) => ({ payload: { to }, dedupe: { key: to, for: '5m', onDuplicate: 'update' } })),
      )
    const plain = () =>
      sluice.enqueueMany(
        tx,
        'mails',
        list.map((to) => ({ payload: { to }, delay: '5m' })),
      )
    unrun(() => expectTypeOf(keyed()).resolves.toEqualTypeOf<EnqueueResult[]>())
    unrun(() => expectTypeOf(inline()).resolves.toEqualTypeOf<EnqueueResult[]>())
    unrun(() => expectTypeOf(plain()).resolves.toEqualTypeOf<string[]>())
  })

  test('returns an id or an outcome, where only the call knows whether there is a key', () => {
    const either = (options: EnqueueOptions | DedupedOptions) => sluice.enqueue(tx, 'mails', mail, options)
    expectTypeOf(either).returns.resolves.toEqualTypeOf<string | EnqueueResult>()
    const without = (options?: EnqueueOptions) => sluice.enqueue(tx, 'mails', mail, options)
    expectTypeOf(without).returns.resolves.toEqualTypeOf<string>()
  })

  test('takes keys with the policies that there are, in all messages or in none', () => {
    // @ts-expect-error no such policy
    unrun(() => sluice.enqueue(tx, 'mails', mail, { dedupe: { key: 'ada', onDuplicate: 'replace' } }))
    // @ts-expect-error a policy without a key
    unrun(() => sluice.enqueue(tx, 'mails', mail, { dedupe: { onDuplicate: 'reject' } }))
    // @ts-expect-error one with a key and one without
    unrun(() => sluice.enqueueMany(tx, 'mails', [{ payload: mail, dedupe }, { payload: mail }]))
  })
})

describe('deliveries', () => {
  test("carry the schema's output", () => {
    const deliveries = sluice.deliveries('mails', { demand: 8 })
    expectTypeOf(deliveries).toEqualTypeOf<Deliveries<Mail>>()
    expectTypeOf(deliveries).toExtend<Observable<Delivery<Mail>>>()
    expectTypeOf(deliveries).toExtend<AsyncIterable<Delivery<Mail>>>()
    expectTypeOf<Delivery<Mail>['ack']>().returns.toEqualTypeOf<boolean>()
    expectTypeOf<Delivery<Mail>['message']>().toEqualTypeOf<Message<Mail>>()
  })

  test('demand a demand', () => {
    // @ts-expect-error how many to lock at a time is not to be guessed
    unrun(() => sluice.deliveries('mails', {}))
    // @ts-expect-error how many to lock at a time is not to be guessed
    unrun(() => sluice.deliveries('mails'))
    // @ts-expect-error concurrency follows from the demand
    unrun(() => sluice.deliveries('mails', { demand: 8, concurrency: 2 }))
  })

  test('keep their types through the operators', () => {
    const deliveries = sluice.deliveries('mails', { demand: 8 })
    const processed = deliveries.pipe(
      handleDeliveries(({ payload }) => expectTypeOf(payload).toEqualTypeOf<Mail>() as never),
    )
    expectTypeOf(processed).toEqualTypeOf<Observable<Processed<Mail>>>()
    const batched = deliveries.pipe(groupWithin({ size: 8, maxWait: 50 }))
    expectTypeOf(batched).toEqualTypeOf<Observable<readonly Delivery<Mail>[]>>()
    // @ts-expect-error when to close a group is not to be guessed
    unrun(() => groupWithin({ size: 8 }))
  })
})

describe('routes', () => {
  test('take handlers for the payload of the pipeline', () => {
    sluice.pipeline('mails').handle(
      routes([
        { match: 'Mail.Sent', handle: ({ payload }) => expectTypeOf(payload).toEqualTypeOf<Mail>() as never },
        { match: 'Mail.**', handle: async () => retryLater() },
      ]),
    )
  })

  test('have the type of their handlers, in a file of its own too', () => {
    type MailHandler = HandlerFor<typeof sluice, 'mails'>
    const send: MailHandler = async (_, { enqueue }) => void (await enqueue('plain', 1))
    const log = async ({ id }: Message) => void id
    const table = [
      { match: 'Mail.Sent', handle: send },
      { match: 'Mail.**', handle: log },
    ]
    const all: MailHandler = routes(table)
    const inferred = routes([{ match: 'Mail.Sent', handle: send }, { match: '**', handle: log }, ...table])
    unrun(() => sluice.pipeline('mails').handle(all))
    unrun(() => sluice.pipeline('mails').handle(inferred))
    // @ts-expect-error the payload of another queue
    unrun(() => sluice.pipeline('dates').handle(inferred))
    const plain = routes([{ match: '**', handle: async ({ payload }, { tx }) => void [payload, tx] }])
    expectTypeOf(plain).parameter(0).toEqualTypeOf<Message>()
    expectTypeOf(plain).parameter(1).toEqualTypeOf<HandlerContext>()
  })

  test('refuse a handler for another payload, and unknown options', () => {
    const handle: Handler<Date> = () => undefined
    // @ts-expect-error the payload of another queue
    unrun(() => sluice.pipeline('mails').handle(routes([{ match: '**', handle }])))
    // @ts-expect-error no such policy
    unrun(() => routes([], { unmatched: 'ignore' }))
  })
})

describe('operate', () => {
  test('knows the queues', () => {
    expectTypeOf(sluice.operate.messages.peek).parameter(0).toEqualTypeOf<'mails' | 'dates' | 'plain'>()
    expectTypeOf(open.operate.messages.peek).parameter(0).toEqualTypeOf<string>()
    unrun(() => sluice.operate.messages.list({ queue: 'mails', state: 'ready', held: false, limit: 10 }))
    unrun(() => sluice.operate.deadLetters.list({ queue: 'mails' }))
    // @ts-expect-error no such queue
    unrun(() => sluice.operate.messages.list({ queue: 'mail' }))
    // @ts-expect-error no such queue
    unrun(() => sluice.operate.queues.list({ queue: 'mail' }))
    // @ts-expect-error no such state
    unrun(() => sluice.operate.messages.list({ queue: 'mails', state: 'dead' }))
    // @ts-expect-error messages are of one queue
    unrun(() => sluice.operate.messages.list({ state: 'ready' }))
  })

  test('gives ids as text, instants as Dates, and payloads that nobody has validated', async () => {
    expectTypeOf<MessageStatus['id']>().toEqualTypeOf<string>()
    expectTypeOf<MessageStatus['payload']>().toBeUnknown()
    expectTypeOf<MessageStatus['dueAt']>().toEqualTypeOf<Date | null>()
    expectTypeOf<DeadLetter['diedAt']>().toEqualTypeOf<Date>()
    expectTypeOf<DeadLetter['payload']>().toBeUnknown()
    expectTypeOf(sluice.operate.messages.list).returns.resolves.toEqualTypeOf<MessagePage>()
    expectTypeOf(sluice.operate.messages.listWithoutPayloads).returns.resolves.toEqualTypeOf<
      MessagePage<ListedMessage>
    >()
    expectTypeOf(sluice.operate.deadLetters.get).returns.resolves.toEqualTypeOf<DeadLetter | undefined>()
  })

  test('changes the dead letters of a queue, or of all when told so', () => {
    unrun(() => sluice.operate.deadLetters.redrive({ queue: 'mails', ids: ['1'] }))
    unrun(() => sluice.operate.deadLetters.delete({ allQueues: true, diedBefore: new Date() }, { tx: undefined }))
    // @ts-expect-error neither a queue nor all
    unrun(() => sluice.operate.deadLetters.redrive({}))
    // @ts-expect-error both
    unrun(() => sluice.operate.deadLetters.delete({ queue: 'mails', allQueues: true }))
    unrun(() => sluice.operate.deadLetters.delete({ queue: 'mails', error: 'Timeout' }))
  })
})

describe('events', () => {
  test('are told apart by their kind', () => {
    expectTypeOf(sluice.events).toEqualTypeOf<Observable<SluiceEvent>>()
    const look = (event: SluiceEvent) => {
      if (event.kind === 'message.dead') expectTypeOf(event.reason).toEqualTypeOf<string>()
      // @ts-expect-error no such kind
      return event.kind === 'message.gone'
    }
    expectTypeOf(look).returns.toEqualTypeOf<boolean>()
  })
})

describe('claims', () => {
  test('have the payloads of their queue', async () => {
    const claim = await sluice.claim('mails', { limit: 2, lease: '1m', wait: '20s' })
    expectTypeOf(claim).toEqualTypeOf<Claim<Mail> | undefined>()
    expectTypeOf(claim!.messages).toEqualTypeOf<readonly Message<Mail>[]>()
    expectTypeOf(await sluice.pop('dates')).toEqualTypeOf<readonly Message<Date>[]>()
    expectTypeOf(await sluice.operate.claims.get('mails', '1')).toEqualTypeOf<Claim<Mail>>()
    // @ts-expect-error There is no such queue.
    await sluice.claim('mail')
    // @ts-expect-error An outcome is made by a function.
    await claim!.settle(claim!.messages, 'ack')
  })
})

describe('a stream with a schema', () => {
  const typed = createSluice({
    connection: '',
    queues: { mails: queueOf<Mail>() },
    streams: { orders: queueOf<{ id: number; paidAt: Date }>() },
  })

  test('takes what its schema takes, and gives handlers of a group what that returns', () => {
    unrun(() => typed.append(typed.ownTransaction, 'orders', { id: 1, paidAt: new Date() }))
    // @ts-expect-error no id
    unrun(() => typed.append(typed.ownTransaction, 'orders', { paidAt: new Date() }))
    unrun(() => typed.operate.deadLetters.redrive({ queue: 'orders:billing' }))
    // @ts-expect-error a group of no stream
    unrun(() => typed.operate.deadLetters.redrive({ queue: 'mails:billing' }))
    // @ts-expect-error a queue is no stream
    unrun(() => typed.append(typed.ownTransaction, 'mails', { to: 'ada' }))
    typed.pipeline('orders', { group: 'billing' }).handle(({ payload, position, stream }) => {
      expectTypeOf(payload).toEqualTypeOf<{ id: number; paidAt: string }>()
      expectTypeOf(position).toEqualTypeOf<number>()
      expectTypeOf(stream).toEqualTypeOf<string>()
    })
    typed.deliveries('orders', { group: 'billing', demand: 1 }).subscribe(({ message }) => {
      expectTypeOf(message.payload).toEqualTypeOf<{ id: number; paidAt: string }>()
      expectTypeOf(message.position).toEqualTypeOf<number>()
    })
    const to = {} as Destination
    unrun(() => typed.relay('mails', { to }))
    unrun(() => typed.relay({ stream: 'orders', group: 'to-nats' }, { to, format: 'cloudevents-structured' }))
    // @ts-expect-error a queue is no stream
    unrun(() => typed.relay({ stream: 'mails', group: 'to-nats' }, { to }))
    // @ts-expect-error a stream is relayed for a group
    unrun(() => typed.relay('orders', { to }))
    // @ts-expect-error no such stream
    unrun(() => typed.pipeline('mails', { group: 'billing' }))
    // @ts-expect-error a stream is consumed for a group
    unrun(() => typed.pipeline('orders'))
  })
})
