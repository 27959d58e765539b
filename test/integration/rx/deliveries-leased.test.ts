import { take, toArray } from 'rxjs'
import { expect } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { type Delivery, handleDeliveries } from '../../../src/index.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const LEASED = { mode: 'leased', retry: { kind: 'fixed', delay: '1h' } } as const

test('P3: leases as many as the demand, and one more for each delivery that its transaction() settles', async ({
  sluice,
  queue,
  database,
}) => {
  await database.sql('CREATE TABLE delivered (id bigint)')
  await put(sluice, queue, [1, 2, 3])
  const arrived: Delivery<unknown, 'leased'>[] = []
  const subscription = sluice.deliveries(queue, { ...LEASED, demand: 2 }).subscribe((one) => arrived.push(one))
  await waitFor(() => arrived.length === 2, { what: 'two deliveries' })
  const leased = await sluice.operate.messages.list({ queue, state: 'in_flight' })
  expect(leased.messages.map(({ payload }) => payload).toSorted()).toEqual([1, 2])

  const first = arrived.find(({ message }) => message.payload === 1)
  const insert = first?.transaction((tx) => tx.query('INSERT INTO delivered VALUES ($1)', [first.message.id]))
  expect(await insert).toMatchObject({ rowCount: 1 })
  expect(first?.ack()).toBe(false)
  expect(await payloadsOf(database, queue)).toEqual([2, 3])

  await waitFor(() => arrived.length === 3, { what: 'the third' })
  for (const one of arrived) one.ack()
  await untilEmpty(database, queue)
  expect(await database.sql('SELECT id FROM delivered')).toEqual([{ id: first?.message.id }])
  subscription.unsubscribe()
})

test('a transaction() whose work throws keeps nothing and settles nothing', async ({ sluice, queue, database }) => {
  await database.sql('CREATE TABLE undone (n integer)')
  await put(sluice, queue, [1])
  for await (const delivery of sluice.deliveries(queue, { ...LEASED, demand: 1 })) {
    const written = delivery.transaction(async (tx) => {
      await tx.query('INSERT INTO undone VALUES (1)')
      throw new RangeError('stop')
    })
    await expect(written).rejects.toThrow(new RangeError('stop'))
    expect(delivery.fail(new Error('later'))).toBe(true)
    break
  }
  expect(await database.sql('SELECT FROM undone')).toEqual([])
  await waitFor(
    async () => {
      const [message] = await database.sql('SELECT attempt, last_error FROM sluice.message WHERE queue = $1', [queue])
      return message?.last_error === 'Error: later' && message.attempt === 1
    },
    { what: 'the failed attempt' },
  )
})

test('a transaction() that fails and is not awaited fails the delivery, whatever settles it', async ({
  sluice,
  queue,
  database,
}) => {
  const failed = () => database.sql('SELECT last_error FROM sluice.message WHERE queue = $1 AND attempt = 1', [queue])
  const raised = deferred()
  const fail = async (tx: HandlerTransaction): Promise<never> => {
    await tx.query('SELECT')
    raised.resolve()
    throw new RangeError('undone')
  }
  await put(sluice, queue, ['by a delivery'])
  const settled = sluice.deliveries(queue, { ...LEASED, demand: 1 }).subscribe(async (delivery) => {
    void delivery.transaction(fail)
    await raised.promise
    // It is rolled back behind its statement.
    await database.sql('SELECT')
    delivery.ack()
  })
  await waitFor(async () => (await failed()).length === 1, { what: 'the first failed attempt' })
  settled.unsubscribe()
  await put(sluice, queue, ['by a handler'])
  const handled = sluice
    .deliveries(queue, { ...LEASED, demand: 1 })
    .pipe(handleDeliveries(async (_, { transaction }) => void transaction(fail)))
    .subscribe()
  await waitFor(async () => (await failed()).length === 2, { what: 'the second' })
  handled.unsubscribe()
  expect(await failed()).toEqual([{ last_error: 'RangeError: undone' }, { last_error: 'RangeError: undone' }])
})

test('extend() renews the lease, and the key for other services is the same each time', async ({
  sluice,
  queue,
  database,
}) => {
  const [id] = await put(sluice, queue, [1])
  const leasedUntil = async () => {
    const [message] = await database.sql(
      'SELECT extract(epoch FROM due_at)::text AS due FROM sluice.message WHERE queue = $1',
      [queue],
    )
    return Number(message?.due)
  }
  for await (const delivery of sluice.deliveries(queue, { ...LEASED, demand: 1, lease: '10m' })) {
    expect(delivery.tx).toBeUndefined()
    expect(delivery.idempotencyKey).toBe(`${queue}/${id}`)
    const before = await leasedUntil()
    await delivery.extend()
    expect(await leasedUntil()).toBeGreaterThan(before)
    expect(delivery.leaseUntil.getTime()).toBeGreaterThan(Date.now())
    delivery.ack()
    break
  }
})

test('transaction() throws LEASE_LOST when somebody else has the message', async ({ sluice, queue, database }) => {
  await put(sluice, queue, [1])
  for await (const delivery of sluice.deliveries(queue, { ...LEASED, demand: 1 })) {
    await database.sql('UPDATE sluice.message SET lease = lease + 1 WHERE queue = $1', [queue])
    await expect(delivery.transaction(() => undefined)).rejects.toMatchObject({ code: 'LEASE_LOST' })
    expect(delivery.signal.reason).toMatchObject({ code: 'LEASE_LOST' })
    expect(delivery.ack()).toBe(false)
    break
  }
})

test('handleDeliveries gives its handler the lease, and what transaction() has committed is acked', async ({
  sluice,
  queue,
  database,
}) => {
  await database.sql('CREATE TABLE handled (key text)')
  await put(sluice, queue, ['commits and throws', 'throws'])
  const processed = sluice.deliveries(queue, { ...LEASED, demand: 2 }).pipe(
    handleDeliveries(async ({ payload }, { transaction, idempotencyKey, attempt }) => {
      expect(attempt).toBe(1)
      if (payload !== 'throws') await transaction((tx) => tx.query('INSERT INTO handled VALUES ($1)', [idempotencyKey]))
      throw new Error('too late')
    }),
    take(2),
    toArray(),
  )
  const results = await new Promise<readonly object[]>((resolve, reject) => {
    processed.subscribe({ next: resolve, error: reject })
  })
  expect(results).toContainEqual({
    message: expect.objectContaining({ payload: 'commits and throws' }),
    outcome: { kind: 'ack' },
  })
  expect(results).toContainEqual({
    message: expect.objectContaining({ payload: 'throws' }),
    error: new Error('too late'),
  })
  expect(await database.sql('SELECT count(*)::integer AS n FROM handled')).toEqual([{ n: 1 }])
  expect(await payloadsOf(database, queue)).toEqual(['throws'])
})

test('a delivery of transactional mode refuses transaction(): it is in one', async ({ sluice, queue }) => {
  await put(sluice, queue, [1])
  for await (const delivery of sluice.deliveries(queue, { demand: 1 })) {
    const other = delivery as unknown as Delivery<unknown, 'leased'>
    await expect(other.transaction(() => undefined)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('delivery.tx'),
    })
    delivery.ack()
    break
  }
})
