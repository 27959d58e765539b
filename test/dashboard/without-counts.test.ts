import { describe, expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, test } from '../support/sluice.ts'

// The view of the exact counts is replaced in the database of this file.
describe('while the exact counts fail', () => {
  test('the page says since when and why, and shows counts that end at 10,000', async ({ sluice, queue, database }) => {
    await refuseToCount(database)
    await put(sluice, queue, [1, 2])
    await database.sql(
      `INSERT INTO sluice.message (queue, payload) SELECT $1 || '.large', '{}' FROM generate_series(1, 10001)`,
      [queue],
    )
    const errors: unknown[] = []
    const page = new TestPage(sluice, { onError: (error) => errors.push(error) })
    const overview = await page.counted('/', 'No new counts for')
    expect(overview).toContain('it takes longer than statement_timeout allows')
    await page.counted('/', '10,000+')
    expect(await page.counted(`/queues/${queue}`, 'Counted up to 10,000')).toMatch(/Due<\/span> <strong>2</)
    expect(await page.counted(`/queues/${queue}.large`, 'Counted up to 10,000')).toMatch(
      /Due<\/span> <strong><span[^>]*>10,000\+/,
    )
    expect(String(errors[0])).toContain('not today')
    expect(overview).not.toContain('not today')
  })
})

async function refuseToCount({ sql }: TestDatabase): Promise<void> {
  await sql(`CREATE FUNCTION public.refuse() RETURNS boolean LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION 'not today' USING ERRCODE = 'query_canceled'; END $$`)
  await sql('ALTER VIEW sluice.queues RENAME TO exact')
  await sql('CREATE VIEW sluice.queues AS SELECT * FROM sluice.exact WHERE public.refuse()')
}
