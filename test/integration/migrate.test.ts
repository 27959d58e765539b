import { describe, expect } from 'vitest'
import { migrate } from '../../src/migrate.ts'
import { test } from '../support/test.ts'

describe('smoke', () => {
  test('works', async ({ database }) => {
    expect(await migrate(database.url)).toEqual({ applied: [], version: 1 })
    expect(await database.sql('select count(*)::int as n from sluice.message')).toEqual([{ n: 0 }])
  })
})
