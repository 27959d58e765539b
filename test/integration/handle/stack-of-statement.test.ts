import { sql } from 'kysely'
import { describe, expect } from 'vitest'
import { stackOf } from '../../../src/basics/errors/stack-of.ts'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { put, test } from '../../support/sluice.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

/** Each fails on the server, in a function of its own. */
const FAILING: readonly (readonly [how: string, charge: (tx: HandlerTransaction) => Promise<unknown>])[] = [
  [
    'tx.query()',
    async function charge(tx) {
      await tx.query('SELECT 1 / 0')
    },
  ],
  [
    'tx.query() that is awaited later',
    async function charge(tx) {
      const sent = tx.query('SELECT 1 / 0')
      await sent
    },
  ],
  [
    'tx.client.query()',
    async function charge(tx) {
      await tx.client.query({ text: 'SELECT 1 / $1::int', values: [0] })
    },
  ],
  [
    'Kysely on tx',
    async function charge(tx) {
      await sql`SELECT 1 / 0`.execute(tx.kysely())
    },
  ],
  [
    'a query builder of Kysely on tx',
    async function charge(tx) {
      await tx.kysely<Record<string, { id: number }>>().selectFrom('not_there').selectAll().executeTakeFirst()
    },
  ],
]

describe('the stack of a statement that fails', () => {
  test.for(FAILING)('leads to the handler: %s', async ([, charge], { sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async function handleIt(_, { tx }) {
        await charge(tx)
      })
      .subscribe()
    await put(sluice, queue, [1])
    const { cause } = await log.first('message.failed')
    expect(stackOf(cause)).toMatch(LEADS_TO_HANDLER)
  })

  test.for(FAILING)('leads to the handler in leased mode: %s', async ([, charge], { sluice, queue, log }) => {
    sluice
      .pipeline(queue, { ...LATER, mode: 'leased' })
      .handle(async function handleIt(_, { transaction }) {
        await transaction(charge)
      })
      .subscribe()
    await put(sluice, queue, [1])
    const { cause } = await log.first('message.failed')
    expect(stackOf(cause)).toMatch(/\bcharge \(/)
  })

  test('leads to the handler that called transaction(), if its work sends the statement itself', async ({
    sluice,
    queue,
    log,
  }) => {
    sluice
      .pipeline(queue, { ...LATER, mode: 'leased' })
      .handle(async function handleIt(_, { transaction }) {
        await transaction((tx) => tx.query('SELECT 1 / 0'))
      })
      .subscribe()
    await put(sluice, queue, [1])
    const { cause } = await log.first('message.failed')
    expect(stackOf(cause)).toMatch(/handleIt/)
  })

  test('leads to the handler that has called enqueue()', async ({ sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async function handleIt(_, { tx, enqueue }) {
        await tx.query('SET LOCAL transaction_read_only = on')
        await enqueue(`${queue}.next`, {})
      })
      .subscribe()
    await put(sluice, queue, [1])
    const { cause } = await log.first('message.failed')
    expect(stackOf(cause)).toMatch(/handleIt/)
  })
})

const LEADS_TO_HANDLER = /\bcharge \([\s\S]*handleIt/
