import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { test } from '../support/test.ts'

test('the demo loses and doubles nothing, not even a mail, with a worker killed on the way', async ({ database }) => {
  const main = fileURLToPath(new URL('../../demo/main.ts', import.meta.url))
  const env = { ...process.env, DATABASE_URL: database.url }
  const { stdout } = await promisify(execFile)(process.execPath, [main, '--orders', '200', '--json'], { env })
  const audit = JSON.parse(stdout)
  expect(audit).toMatchObject({ orders: 200, handled: 399, effects: 399, mails: 200, lost: 0, duplicated: 0 })
  // What a stream's group has added up of the events is what the orders say.
  expect(audit).toMatchObject({ reported: 200, misreported: 0 })
  // The service answers some calls with an error after it has sent the mail.
  expect(audit.askedAgain).toBeGreaterThan(0)
})
