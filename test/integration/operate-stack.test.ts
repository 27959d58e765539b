import pg from 'pg'
import { expect } from 'vitest'
import { test } from '../support/sluice.ts'

const thrownBy = (call: () => Promise<unknown>) => call().catch((error: unknown) => error)

test('an option that operate refuses is refused with the line of the call', async ({ sluice, queue }) => {
  const redriveBefore = () => sluice.operate.deadLetters.redrive({ queue, diedBefore: 'x' as never })
  expect(await thrownBy(redriveBefore)).toMatchObject({
    code: 'OPTION_INVALID',
    stack: expect.stringMatching(/ at redriveBefore .*operate-stack\.test\.ts/),
  })
})

test('an error of the database has the line of the call to operate', async ({ database, sluice, queue }) => {
  const client = new pg.Client(database.url)
  await client.connect()
  await client.query('BEGIN READ ONLY')
  const pauseReadOnly = () => sluice.operate.queues.pause(queue, { tx: client })
  const error = await thrownBy(pauseReadOnly)
  await client.end()
  expect(error).toMatchObject({
    code: '25006',
    stack: expect.stringMatching(/ at pauseReadOnly .*operate-stack\.test\.ts/),
  })
})
