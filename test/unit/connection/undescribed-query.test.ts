import pg from 'pg'
import { expect, test } from 'vitest'
import { takesUndescribed } from '../../../src/connection/undescribed-query.ts'

/** The client of a driver from before pg 8.21, which does not tell its transaction's status. */
class OldClient {
  static readonly Query = pg.Query
  readonly connection = new pg.Client().connection
  query(): void {}
}

test("the driver's own client takes queries of a class of ours", () => {
  expect(takesUndescribed(new pg.Client())).toBe(true)
})

test('that of a driver from before 8.21 takes its own', () => {
  const client = new OldClient()
  expect(takesUndescribed(client)).toBe(false)
  expect(takesUndescribed(Object.assign(client, { getTransactionStatus: () => 'T' }))).toBe(true)
})

test.each([{ pipeline: true }, { binary: true }])('one with %o takes its own', (differing) => {
  expect(takesUndescribed(Object.assign(new pg.Client(), differing))).toBe(false)
})
