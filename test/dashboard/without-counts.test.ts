import { describe, expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import { openSession } from '../support/explain/reasons.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { put, test } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

describe('while a session has locked the table of messages', () => {
  test('the page of a queue says who, and the overview says so beside its old counts, and both end with it', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, [1])
    const page = new TestPage(sluice, { onError: () => undefined })
    await page.counted('/', queue)
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    const answer = await page.send(`/queues/${queue}`)
    expect(answer.status).toBe(503)
    const refused = await answer.text()
    expect(refused).toContain('A table is locked')
    expect(refused).toContain(`SELECT pg_terminate_backend(${pid});`)
    const overview = await page.counted('/', 'No new counts for')
    expect(overview).toContain(`SELECT pg_terminate_backend(${pid});`)
    expect(overview).toMatch(/The counts and ages shown were true \d/)
    await session.query('ROLLBACK')
    await page.get(`/queues/${queue}`)
    const fresh = async () => !(await page.get('/')).includes('No new counts for')
    await waitFor(fresh, { what: 'new counts' })
  })
})

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
