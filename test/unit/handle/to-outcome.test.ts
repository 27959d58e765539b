import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable } from 'drizzle-orm/pg-core'
import Knex from 'knex'
import { Kysely, PostgresDialect, sql } from 'kysely'
import pg from 'pg'
import { DataSource } from 'typeorm'
import { expect, test } from 'vitest'
import { toOutcomes } from '../../../src/handle/to-outcome.ts'
import { isUnrunQuery } from '../../../src/handle/unrun-query.ts'
import { ack, snooze } from '../../../src/message.ts'

test('what a batch handler returns has an outcome for each message: undefined is one, a hole is none', () => {
  const later = snooze({ after: '1s' })
  expect(toOutcomes([undefined, later, ack()], 3)).toEqual([ack(), later, ack()])
  const holes: unknown[] = [ack(), later]
  holes.length = 3
  const hole =
    "The batch handler's result[2]: expected ack(), retryLater(), snooze() or deadLetter(), received undefined"
  expect(() => toOutcomes(holes, 3)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  expect(() => toOutcomes(holes, 3)).toThrow(hole)
  expect(() => toOutcomes(Array(3), 3)).toThrow("The batch handler's result[0]")
})

test('a wrong outcome of a batch is named by its index', () => {
  expect(() => toOutcomes([ack(), 7], 2)).toThrow(
    "The batch handler's result[1]: expected nothing, ack(), retryLater(), snooze() or deadLetter(), received 7",
  )
})

test('a query that was built and not run is told from one that a promise has run', () => {
  const typeOrm = new DataSource({ type: 'postgres' }).createQueryBuilder().select()
  const kysely = new Kysely<{ note: { text: string } }>({
    dialect: new PostgresDialect({ pool: new pg.Pool() }),
  }).selectFrom('note')
  const raw = sql`SELECT 1`
  for (const query of [typeOrm, kysely, raw]) expect(isUnrunQuery(query), String(query)).toBe(true)
  const knex = Knex({ client: 'pg' })('note').select()
  const drizzled = drizzle.mock().select().from(pgTable('note', {}))
  for (const other of [knex, drizzled, Promise.resolve(), { execute: () => 1 }, ack(), null, undefined, 'execute'])
    expect(isUnrunQuery(other)).toBe(false)
})
