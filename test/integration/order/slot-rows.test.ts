import { expect, onTestFinished } from 'vitest'
import { Claimer } from '../../../src/claim/claimer.ts'
import { executeOn } from '../../../src/connection/open-client.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { BatchConnection } from '../../../src/transaction/batch-connection.ts'
import { idsOf, put } from '../../support/rows/claim-session.ts'
import { acked } from '../../support/rows/settled-rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test } from '../../support/test.ts'
import { deferred } from '../../support/wait.ts'

test('a claim that asked for a slot before its row was there waits for the row, and asks again', async ({
  database,
}) => {
  const [unkeyed, keyed] = await put(database, 'rows.late', [{}, { key: 'a' }])
  const late = deferred()
  const { connection, claimer, handle } = await startClaimer(database, 'rows.late', async (make) => {
    await late.promise
    return make()
  })
  await handle(unkeyed)
  const sent = claimer.send(connection)
  const taken = claimer.take(connection, sent)
  expect(idsOf(await sent.first)).toEqual([])
  late.resolve()
  expect(idsOf(await taken)).toEqual([keyed])
})

test('a claim that asked before the row was there, and is answered after it, asks again', async ({ database }) => {
  const [unkeyed, keyed] = await put(database, 'rows.meanwhile', [{}, { key: 'a' }])
  const [late, made] = [deferred(), deferred()]
  const { connection, claimer, handle } = await startClaimer(database, 'rows.meanwhile', async (make) => {
    await late.promise
    return make().finally(made.resolve)
  })
  await handle(unkeyed)
  const sent = claimer.send(connection)
  expect(idsOf(await sent.first)).toEqual([])
  late.resolve()
  await made.promise
  // So that the scan is over.
  await new Promise(setImmediate)
  expect(idsOf(await claimer.take(connection, sent))).toEqual([keyed])
})

test('the row of a slot that could not be made is made by the claim that then finds nothing', async ({ database }) => {
  const [unkeyed, keyed] = await put(database, 'rows.fail', [{}, { key: 'a' }])
  let tries = 0
  const { connection, claimer, handle } = await startClaimer(database, 'rows.fail', (make) => {
    tries += 1
    return tries === 1 ? Promise.reject(new Error('canceling statement due to lock timeout')) : make()
  })
  await handle(unkeyed)
  expect(idsOf(await claimer.take(connection, claimer.send(connection)))).toEqual([keyed])
})

/** A claimer that has claimed nothing yet, with a batch begun. `makeRows` decides when, and whether, rows of slots are made. */
async function startClaimer(database: TestDatabase, queue: string, makeRows: (make: () => Rows) => Rows) {
  const pool = openPool({ connectionString: database.url })
  const connection = await BatchConnection.acquire(pool)
  onTestFinished(async () => {
    connection.release()
    await pool.end()
  })
  connection.begin()
  const onControl = executeOn(database.pool)
  const control = { execute: (...call: Parameters<Execute>) => makeRows(() => onControl(...call)) }
  const claimer = new Claimer({ queue, batchSize: 10, concurrency: 1, ordered: false }, control)
  const handle = async (id: string | undefined) => {
    expect(idsOf(await claimer.take(connection, claimer.send(connection)))).toEqual([id])
    await acked(connection.execute, queue, [String(id)])
  }
  return { connection, claimer, handle }
}

type Rows = ReturnType<Execute>
