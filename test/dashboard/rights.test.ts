import { expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import { test } from '../support/servers/logins.ts'
import { startTestSluice } from '../support/sluice.ts'

const PATHS = [
  '/',
  '/queues/q',
  '/queues/q/messages/1',
  '/dead',
  '/workers',
  '/schedules',
  '/streams',
  '/doctor',
  '/audit',
]

test('a login that may only read sees every page, and is told the role that an action takes', async ({ login }) => {
  const page = new TestPage(startTestSluice(await login('sluice_reader')))
  for (const path of PATHS) expect([path, (await page.send(path)).status]).toEqual([path, 200])
  const answer = await page.post('/queues/q/pause', { confirmed: 'yes' })
  expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining('sluice_operator')])
})

test('an operator pauses, and deletes no dead letters', async ({ login }) => {
  const page = new TestPage(startTestSluice(await login('sluice_operator')))
  expect(await page.act('/queues/q/pause')).toContain('done=paused')
  expect(await page.act('/queues/q/resume')).toContain('done=resumed')
  const fields = { queue: 'q', all: 'yes', confirmed: 'yes', before: '2020-01-01T00:00:00.000Z', total: '0' }
  const answer = await page.post('/dead/delete', fields)
  expect([answer.status, await answer.text()]).toEqual([403, expect.stringContaining('sluice_admin')])
})
