import { describe, expect } from 'vitest'
import { test } from '../../support/sluice.ts'

describe('what the server parses in every statement that writes a row:', () => {
  // From version 16 on, the server parses the expression of a generated column for every row of an UPDATE that sets none
  // of its columns.
  test('no generated column, for each is made of one that a claim, a renewal and a retry set', async ({ database }) => {
    const columns = await database.sql(
      `SELECT c.relname, a.attname AS generated, pg_get_expr(d.adbin, d.adrelid) LIKE '%due_at IS NOT NULL%' AS made_of_due_at
       FROM pg_attribute a JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum JOIN pg_class c ON c.oid = a.attrelid
       WHERE c.relnamespace = 'sluice'::regnamespace AND a.attgenerated <> ''`,
    )
    expect(columns).toEqual([{ relname: 'message', generated: 'slot', made_of_due_at: true }])
  })

  // It parses each CHECK of the table, and the constraints of a domain once in a session: decision 68.
  test('few CHECKs of messages and events, and none of receipts, for other bounds are those of types', async ({
    database,
  }) => {
    const checks = await database.sql(
      `SELECT conname FROM pg_constraint WHERE conrelid = ANY ('{sluice.message, sluice.event, sluice.receipt}'::regclass[]) AND contype = 'c'
       ORDER BY conrelid::regclass::text COLLATE "C", conname COLLATE "C"`,
    )
    expect(checks.map(({ conname }) => conname)).toEqual([
      'headers: a JSON object',
      'payload, headers: readable in UTF-8',
      'headers: a JSON object',
      'payload, headers: readable in UTF-8',
      'queue: 1 to 100 letters, digits and _ . : - (no . : - first)',
      'tenant: without an ordering_key',
    ])
  })
})
