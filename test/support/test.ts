import { test as base } from 'vitest'
import { createTestDatabase } from './servers/database.ts'

/** `test` with a migrated database of the file's own, created when a test first names it. */
export const test = base.extend('database', { scope: 'file' }, async ({}, { onCleanup }) => {
  const database = await createTestDatabase()
  onCleanup(() => database[Symbol.asyncDispose]())
  return database
})
