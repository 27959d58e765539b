import { test as base } from '../test.ts'
import { createTestDatabase } from './database.ts'
import { findTestServer } from './server.ts'

/**
 * `test` whose database has a server of its own, unless `DATABASE_URL` names one for all. What a statement touches
 * depends on the whole server: an old transaction in any database keeps dead rows and snapshots back, and CREATE
 * DATABASE and much DDL elsewhere make every session read its catalogs again.
 */
export const test = base.extend('database', { scope: 'file' }, async ({}, { onCleanup }) => {
  const server = await findTestServer({ autovacuum: 'off' })
  const database = await createTestDatabase({ serverUrl: server.url }).catch(async (error: unknown) => {
    await server.stop()
    throw error
  })
  onCleanup(async () => {
    await database[Symbol.asyncDispose]()
    await server.stop()
  })
  return database
})
