import { describe, expectTypeOf, test } from 'vitest'
import {
  createSluice,
  type Deliveries,
  type Delivery,
  type Handler,
  type HandlerFor,
  type HandlerTransaction,
  handleDeliveries,
  type LeasedContext,
  queueOf,
  retryLater,
  routes,
} from '../../src/index.ts'
import { deliver } from '../../src/testing.ts'

interface Report {
  readonly url: string
}

const sluice = createSluice({ connection: '', queues: { reports: queueOf<Report>(), mails: {} } })
const open = createSluice({ connection: '' })
const unrun = (_call: () => unknown) => undefined

describe("a leased handler's context", () => {
  test('has a lease and no transaction', () => {
    sluice.pipeline('reports', { mode: 'leased' }).handle(async ({ payload }, context) => {
      expectTypeOf(payload).toEqualTypeOf<Report>()
      expectTypeOf(context).toEqualTypeOf<LeasedContext>()
      // @ts-expect-error no transaction is open
      expectTypeOf(context.tx).toBeAny()
      const written = await context.transaction(async (tx) => {
        expectTypeOf(tx).toEqualTypeOf<HandlerTransaction>()
        return 7
      })
      expectTypeOf(written).toEqualTypeOf<number>()
    })
  })
})

describe('routes', () => {
  test('give handlers of a leased pipeline its context', () => {
    sluice.pipeline('reports', { mode: 'leased' }).handle(
      routes([
        {
          match: 'Report.Asked',
          handle: async ({ payload }, context) => {
            expectTypeOf(payload).toEqualTypeOf<Report>()
            expectTypeOf(context).toEqualTypeOf<LeasedContext>()
            // @ts-expect-error no transaction is open
            context.tx
          },
        },
        { match: 'Report.**', handle: async () => retryLater() },
      ]),
    )
    open
      .pipeline('anything', { mode: 'leased' })
      .handle(
        routes([
          { match: '**', handle: (_, context) => expectTypeOf(context).toEqualTypeOf<LeasedContext>() as never },
        ]),
      )
  })

  test('have the type of their handlers, in a file of its own too', () => {
    type ReportHandler = HandlerFor<typeof sluice, 'reports', 'leased'>
    const render: ReportHandler = async (_, { transaction }) => transaction(() => undefined)
    const all: ReportHandler = routes([
      { match: 'Report.Asked', handle: render },
      { match: 'Report.**', handle: async ({ payload }, { extend }) => void [payload.url, extend] },
    ])
    const inferred = routes([{ match: '**', handle: render }])
    unrun(() => sluice.pipeline('reports', { mode: 'leased' }).handle(all))
    unrun(() => sluice.pipeline('reports', { mode: 'leased' }).handle(inferred))
    // @ts-expect-error it wants a lease
    unrun(() => sluice.pipeline('reports').handle(inferred))
  })

  test('refuse a handler of the other mode', () => {
    const inTransaction: HandlerFor<typeof sluice, 'reports'> = async (_, { tx }) => void tx
    const leased: HandlerFor<typeof sluice, 'reports', 'leased'> = async (_, { extend }) => extend()
    unrun(() => sluice.pipeline('reports', { mode: 'leased' }).handle(routes([{ match: '**', handle: leased }])))
    // @ts-expect-error it wants a transaction
    unrun(() => sluice.pipeline('reports', { mode: 'leased' }).handle(routes([{ match: '**', handle: inTransaction }])))
    // @ts-expect-error it wants a lease
    unrun(() => sluice.pipeline('reports').handle(routes([{ match: '**', handle: leased }])))
  })
})

describe('deliver', () => {
  test('gives a handler the context of its mode', () => {
    unrun(() =>
      deliver(
        sluice,
        'reports',
        async ({ payload }, context) => {
          expectTypeOf(payload).toEqualTypeOf<Report>()
          expectTypeOf(context).toEqualTypeOf<LeasedContext>()
        },
        [{ payload: { url: '/' } }],
        { mode: 'leased', timeout: '1s' },
      ),
    )
    const leased: HandlerFor<typeof sluice, 'reports', 'leased'> = async (_, { extend }) => extend()
    // @ts-expect-error it wants a lease
    unrun(() => deliver(sluice, 'reports', leased, [{ payload: { url: '/' } }]))
    // @ts-expect-error the payload of another queue
    unrun(() => deliver(sluice, 'reports', leased, [{ payload: 5 }], { mode: 'leased' }))
    const inTransaction: Handler = (_, { tx }) => void tx
    // @ts-expect-error it wants a transaction
    unrun(() => deliver(open, 'anything', inTransaction, [{ payload: 5 }], { mode: 'leased' }))
  })

  test('takes routes', () => {
    unrun(() =>
      deliver(
        sluice,
        'reports',
        routes([
          { match: '**', handle: (_, context) => expectTypeOf(context).toEqualTypeOf<LeasedContext>() as never },
        ]),
        [{ payload: { url: '/' } }],
        { mode: 'leased' },
      ),
    )
  })
})

describe('deliveries', () => {
  test('have a lease in leased mode, and a transaction in the other', async () => {
    const leased = sluice.deliveries('reports', { mode: 'leased', demand: 50 })
    const delivery = {} as Delivery<Report, 'leased'>
    expectTypeOf(leased).toEqualTypeOf<Deliveries<Report, 'leased'>>()
    expectTypeOf(delivery.tx).toBeUndefined()
    expectTypeOf(delivery.idempotencyKey).toEqualTypeOf<string>()
    expectTypeOf(delivery.leaseUntil).toEqualTypeOf<Date>()
    unrun(() => delivery.extend())
    unrun(async () => expectTypeOf(await delivery.transaction(() => 7)).toEqualTypeOf<number>())
    const inTransaction = {} as Delivery<Report>
    expectTypeOf(inTransaction.tx).toEqualTypeOf<HandlerTransaction>()
    expectTypeOf(inTransaction.idempotencyKey).toBeUndefined()
    // @ts-expect-error there is no lease
    unrun(() => inTransaction.extend())
    // @ts-expect-error it is in a transaction already
    unrun(() => inTransaction.transaction(() => 7))
  })

  test('give the handlers of an operator the context of their mode', () => {
    sluice.deliveries('reports', { mode: 'leased', demand: 50 }).pipe(
      handleDeliveries(({ payload }, context) => {
        expectTypeOf(payload).toEqualTypeOf<Report>()
        expectTypeOf(context).toEqualTypeOf<LeasedContext>()
      }),
    )
    sluice.deliveries('reports', { demand: 8 }).pipe(
      handleDeliveries((_, context) => {
        expectTypeOf(context.tx).toEqualTypeOf<HandlerTransaction>()
      }),
    )
  })
})
