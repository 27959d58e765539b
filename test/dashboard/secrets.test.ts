import { describe, expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import { put, test } from '../support/sluice.ts'

const SECRET = 'hunter22x'

/** What drivers and applications write into errors. */
const ERRORS = {
  database: `connect postgres://app:${SECRET}@db.internal:5432/shop failed`,
  cache: `redis://app:${SECRET}@cache.internal:6379 is away`,
  'at the end of what a group has': `${'x'.repeat(180)} redis://app:${SECRET}@cache.internal is away`,
  parameter: `https://api.example.com/?user=app&password=${SECRET} has not answered`,
} as const

describe('the password of a URL in an error', () => {
  for (const [what, text] of Object.entries(ERRORS)) {
    test(`is on no page, in no address and in no action (${what})`, async ({ sluice, queue }) => {
      const [id = ''] = await put(sluice, queue, [1])
      await sluice
        .pipeline(queue, { maxAttempts: 1 })
        .handle(() => Promise.reject(new Error(text)))
        .runOnce()
      const page = new TestPage(sluice)
      const list = await page.counted(`/dead?queue=${queue}`, 'By type and reason')
      const [, href = ''] =
        /<td class="end" data-title="Count"><div><a href="\/admin\/sluice([^"]*)">1<\/a>/.exec(list) ?? []
      const path = href.replaceAll('&amp;', '&')
      const group = await page.counted(path)
      expect(group).toContain(`/messages/${id}`)
      const fields = Object.fromEntries(new URLSearchParams(path.split('?')[1]))
      const question = await (await page.post('/dead/redrive', { ...fields, all: 'yes' })).text()
      const [, before = ''] = /name="before" value="([^"]*)"/.exec(question) ?? []
      const kept = { before, total: '1', all: 'yes' }
      const to = await page.act('/dead/redrive', { ...fields, ...kept })
      const audit = await page.get('/audit')
      expect(audit).toContain('dead.redrive')
      const actions = JSON.stringify((await sluice.operate.audit.list({ queue })).actions)
      for (const shown of [list, group, question, to, audit, actions]) expect(shown).not.toMatch(/hunter/)
    })
  }

  test('is refused in a filter, and is not shown of actions that others have done with one', async ({
    sluice,
    queue,
  }) => {
    const page = new TestPage(sluice)
    const answer = await page.send(`/dead?error=${encodeURIComponent(ERRORS.database)}`)
    expect(answer.status).toBe(400)
    expect(await answer.text()).not.toContain(SECRET)
    await put(sluice, queue, [1])
    await sluice
      .pipeline(queue, { maxAttempts: 1 })
      .handle(() => Promise.reject(new Error(ERRORS.database)))
      .runOnce()
    await sluice.operate.deadLetters.redrive({ queue, error: ERRORS.database })
    const audit = await page.get('/audit')
    expect(audit).toContain('postgres://app:***@db.internal')
    expect(audit).not.toContain(SECRET)
  })
})
