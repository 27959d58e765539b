import { setImmediate } from 'node:timers/promises'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import type { Sluice } from '../../../src/sluice.ts'
import { openPool } from '../../support/servers/pool.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

const AT_ONCE = schemaOf((value) => ({ value }))
const LATER = schemaOf(async (value) => {
  await setImmediate()
  return { value }
})

type Queues = { readonly late: { readonly schema: StandardSchemaV1 } }

const CALLS: readonly (readonly [string, (sluice: Sluice<Queues, Queues>, tx: pg.ClientBase) => Promise<unknown>])[] = [
  ['enqueue', (sluice, tx) => sluice.enqueue(tx, 'late', 1)],
  ['enqueueMany', (sluice, tx) => sluice.enqueueMany(tx, 'late', [{ payload: 1 }, { payload: 2 }])],
  ['sendWebhook', (sluice, tx) => sluice.sendWebhook(tx, 'late', { type: 'order.paid', payload: 1 })],
]
const APPENDS: typeof CALLS = [
  ['append', (sluice, tx) => sluice.append(tx, 'late', 1)],
  ['appendMany', (sluice, tx) => sluice.appendMany(tx, 'late', [{ payload: 1 }])],
]

describe.for([
  ['without a schema', undefined],
  ['with a schema', AT_ONCE],
  ['with a schema that waits', LATER],
] as const)('what comes after the COMMIT, %s', ([, schema]) => {
  test.for([
    ...CALLS.map(([name, call]) => ({ name, call, kind: 'queues' as const })),
    ...APPENDS.map(([name, call]) => ({ name, call, kind: 'streams' as const })),
  ])('is refused with the line of its $name', async ({ call, kind }, { database }) => {
    const sluice = startTestSluice(database, { [kind]: { late: { schema } } }) as Sluice<never, never>
    const client = await connected(database.url)
    const sendLate = () => call(sluice as never, client)
    await client.query('BEGIN')
    await client.query('COMMIT')
    const refusal = sendLate().catch((error: unknown) => error)
    expect(await refusal).toMatchObject({ code: 'NOT_IN_TRANSACTION', stack: expect.stringMatching(/at sendLate /) })
  })
})

test('an enqueue that is not awaited is sent before the COMMIT behind it, if its schema waits for nothing', async ({
  database,
}) => {
  const sluice = startTestSluice(database, { queues: { soon: { schema: AT_ONCE } } })
  const client = await connected(database.url)
  await client.query('BEGIN')
  const enqueued = sluice.enqueue(client, 'soon', 1)
  await client.query('COMMIT')
  expect(await enqueued).toMatch(/^\d+$/)
})

test.for([
  ['without a schema', undefined],
  ['with a schema that waits', LATER],
] as const)(
  'an enqueue after the end of its handler is refused by its name, with its line: %s',
  async ([, schema], { database, queue }) => {
    const sluice = startTestSluice(database, { queues: { [queue]: {}, emails: { schema } } })
    const kept: HandlerTransaction[] = []
    await put(sluice, queue, [1])
    await sluice
      .pipeline(queue)
      .handle((_, context) => void kept.push(context.tx))
      .runOnce()
    const enqueueLate = () => sluice.enqueue(kept[0]!, 'emails', 1)
    await expect(enqueueLate()).rejects.toMatchObject({
      code: 'TRANSACTION_CLOSED',
      message:
        "The handler's transaction ended with the handler: expected no statement after it, received an enqueue to queue emails. " +
        'Await every statement and every enqueue',
      stack: expect.stringMatching(/at enqueueLate /),
    })
  },
)

async function connected(url: string): Promise<pg.PoolClient> {
  const pool = openPool({ connectionString: url })
  const client = await pool.connect()
  onTestFinished(async () => {
    client.release()
    await pool.end()
  })
  return client
}

function schemaOf(validate: StandardSchemaV1.Props['validate']): StandardSchemaV1 {
  return { '~standard': { version: 1, vendor: 'test', validate } }
}
