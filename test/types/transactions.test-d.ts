import type { drizzle } from 'drizzle-orm/node-postgres'
import type { drizzle as drizzleOverPostgresJs } from 'drizzle-orm/postgres-js'
import type { Knex } from 'knex'
import type { ControlledTransaction, Kysely, Transaction } from 'kysely'
import type pg from 'pg'
import type postgres from 'postgres'
import type { DataSource, EntityManager, QueryRunner } from 'typeorm'
import { describe, expectTypeOf, test } from 'vitest'
import type { HandlerTransaction, OpenTransaction, ownTransaction } from '../../src/index.ts'
import type { PrismaClient, PrismaTransaction } from '../support/prisma-client.ts'

type DrizzleDatabase = ReturnType<typeof drizzle>
type DrizzleTransaction = Parameters<Parameters<DrizzleDatabase['transaction']>[0]>[0]
type DrizzleOverPostgresJs = ReturnType<typeof drizzleOverPostgresJs>
type PostgresJsTransaction = Parameters<Parameters<DrizzleOverPostgresJs['transaction']>[0]>[0]

describe('a message is enqueued in', () => {
  test('the transactions of all clients', () => {
    expectTypeOf<pg.Client>().toExtend<OpenTransaction>()
    expectTypeOf<pg.PoolClient>().toExtend<OpenTransaction>()
    expectTypeOf<pg.ClientBase>().toExtend<OpenTransaction>()
    expectTypeOf<Transaction<{ user: { id: string } }>>().toExtend<OpenTransaction>()
    expectTypeOf<ControlledTransaction<{ user: { id: string } }>>().toExtend<OpenTransaction>()
    expectTypeOf<Knex.Transaction>().toExtend<OpenTransaction>()
    expectTypeOf<DrizzleTransaction>().toExtend<OpenTransaction>()
    expectTypeOf<PostgresJsTransaction>().toExtend<OpenTransaction>()
    expectTypeOf<EntityManager>().toExtend<OpenTransaction>()
    expectTypeOf<QueryRunner>().toExtend<OpenTransaction>()
    expectTypeOf<PrismaTransaction>().toExtend<OpenTransaction>()
    expectTypeOf<postgres.TransactionSql>().toExtend<OpenTransaction>()
    expectTypeOf<HandlerTransaction>().toExtend<OpenTransaction>()
    expectTypeOf<typeof ownTransaction>().toExtend<OpenTransaction>()
  })

  test('nothing that is not one', () => {
    expectTypeOf<pg.Pool>().not.toExtend<OpenTransaction>()
    expectTypeOf<Kysely<{ user: { id: string } }>>().not.toExtend<OpenTransaction>()
    expectTypeOf<Knex>().not.toExtend<OpenTransaction>()
    expectTypeOf<DrizzleDatabase>().not.toExtend<OpenTransaction>()
    expectTypeOf<DrizzleOverPostgresJs>().not.toExtend<OpenTransaction>()
    expectTypeOf<DataSource>().not.toExtend<OpenTransaction>()
    expectTypeOf<PrismaClient>().not.toExtend<OpenTransaction>()
    expectTypeOf<postgres.Sql>().not.toExtend<OpenTransaction>()
    expectTypeOf<Promise<pg.PoolClient>>().not.toExtend<OpenTransaction>()
    expectTypeOf<undefined>().not.toExtend<OpenTransaction>()
    expectTypeOf<string>().not.toExtend<OpenTransaction>()
    expectTypeOf<unknown>().not.toExtend<OpenTransaction>()
  })
})
