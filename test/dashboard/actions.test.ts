import { describe, expect } from 'vitest'
import type { Sluice } from '../../src/sluice.ts'
import { TestPage } from '../support/dashboard.ts'
import { put, test } from '../support/sluice.ts'

describe('an action', () => {
  test('asks first, and changes nothing until it is confirmed', async ({ sluice, queue }) => {
    const page = new TestPage(sluice)
    const answer = await page.post(`/queues/${queue}/pause`)
    expect([answer.status, await answer.text()]).toEqual([200, expect.stringContaining(`Pause ${queue}?`)])
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
    expect(await page.act(`/queues/${queue}/pause`, { reason: 'a test' })).toBe(
      `/admin/sluice/queues/${queue}?done=paused`,
    )
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({
      pausedBy: 'ada@example.com',
      pauseReason: 'a test',
    })
    expect(await page.act(`/queues/${queue}/pause`)).toContain('done=already-paused')
    expect(await page.act(`/queues/${queue}/pause`, { reason: 'another' })).toContain('done=reason-changed')
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ pauseReason: 'another' })
    expect(await page.act(`/queues/${queue}/resume`)).toContain('done=resumed')
    expect(await page.act(`/queues/${queue}/resume`)).toContain('done=not-paused')
  })

  test('reschedules, runs and cancels a message', async ({ sluice, queue }) => {
    const [id = ''] = await put(sluice, queue, [1], { delay: '1h' })
    const page = new TestPage(sluice)
    const path = `/queues/${queue}/messages/${id}`
    expect(await page.act(`${path}/reschedule`, { delay: '2d' })).toContain('done=rescheduled')
    expect((await sluice.operate.messages.get(queue, id))?.dueInMs).toBeGreaterThan(86_400_000)
    expect((await page.post(`${path}/reschedule`, { delay: 'soon', confirmed: 'yes' })).status).toBe(400)
    expect(await page.act(`${path}/run-now`)).toContain('done=due')
    expect(await sluice.operate.messages.get(queue, id)).toMatchObject({ state: 'ready' })
    expect(await page.act(`${path}/cancel`)).toContain('done=cancelled')
    expect(await page.act(`${path}/cancel`)).toContain('done=nothing')
    expect(await page.get(path)).toContain('Nothing is known of it')
  })

  test('is noted in the audit under the name of the user, which the page shows', async ({ sluice, queue }) => {
    const [id = ''] = await put(sluice, queue, [1], { delay: '1h' })
    const page = new TestPage(sluice)
    await page.act(`/queues/${queue}/messages/${id}/run-now`)
    await page.act(`/queues/${queue}/messages/${id}/cancel`)
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions.map(({ actor, action, messageIds }) => [actor, action, messageIds])).toEqual([
      ['ada@example.com', 'message.cancel', [id]],
      ['ada@example.com', 'message.run_now', [id]],
    ])
    const html = await page.get(`/audit?queue=${queue}&action=message.cancel`)
    expect(html).toContain('ada@example.com')
    expect(html).not.toContain('message.run_now')
    expect((await page.send('/audit?action=nothing')).status).toBe(400)
  })

  test('pauses, runs and resumes a schedule', async ({ sluice, queue }) => {
    const name = `s.${queue}`
    await sluice.operate.schedules.set(name, { every: '1h', queue, payload: 1 })
    const page = new TestPage(sluice)
    expect(await page.act(`/schedules/${name}/pause`, { reason: 'slow' })).toContain('done=paused')
    expect((await sluice.operate.schedules.get(name))?.paused).toMatchObject({ by: 'ada@example.com', reason: 'slow' })
    expect(await page.act(`/schedules/${name}/run-now`)).toContain('done=ran')
    expect((await sluice.operate.messages.list({ queue })).messages).toHaveLength(1)
    expect(await page.act(`/schedules/${name}/resume`)).toContain('done=resumed')
    expect((await page.post('/schedules/none/pause', { confirmed: 'yes' })).status).toBe(404)
  })
})

describe('dead letters', () => {
  const withDead = test.extend('ids', async ({ sluice, queue }) => {
    const ids = await put(sluice, queue, ['a', 'b', 'c'], { type: 'mail' })
    await failAll(sluice, queue)
    return ids
  })

  withDead('are shown in groups and one by one, and filtered', async ({ sluice, queue, ids }) => {
    const page = new TestPage(sluice)
    const html = await page.counted(`/dead?queue=${queue}`)
    for (const id of ids) expect(html).toContain(`name="ids" value="${id}"`)
    expect(html).toContain('Redrive all 3')
    const filtered = await page.counted(`/dead?queue=${queue}&error=${encodeURIComponent('ADDRESS FOR b')}`)
    expect(filtered).toContain('Redrive all 1')
  })

  withDead('that are selected are redriven, and no others, after a dry run', async ({ sluice, queue, ids }) => {
    const page = new TestPage(sluice)
    const picked = ids.slice(0, 2)
    const question = await (await page.post('/dead/redrive', { queue, ids: picked })).text()
    expect(question).toContain('Redrive 2 dead letters?')
    const before = hidden(question, 'before')
    expect(await page.act('/dead/redrive', { queue, ids: picked, before, total: '2' })).toContain('done=redriven&n=2')
    expect((await sluice.operate.messages.list({ queue })).messages.map(({ id }) => id).sort()).toEqual(
      [...picked].sort(),
    )
  })

  withDead('that match are deleted, but for those that die after the dry run', async ({ sluice, queue, ids }) => {
    const page = new TestPage(sluice)
    expect(ids).toHaveLength(3)
    const question = await (await page.post('/dead/delete', { queue, all: 'yes' })).text()
    expect(question).toContain('Delete 3 dead letters?')
    const [later] = await put(sluice, queue, ['d'])
    await failAll(sluice, queue)
    const fields = { queue, all: 'yes', before: hidden(question, 'before'), total: '3' }
    expect(await page.act('/dead/delete', fields)).toContain('done=deleted&n=3')
    const { deadLetters } = await sluice.operate.deadLetters.list({ queue })
    expect(deadLetters.map(({ id }) => id)).toEqual([later])
  })

  withDead(
    'are left alone without a selection, and without the instant of the dry run',
    async ({ sluice, queue, ids }) => {
      const page = new TestPage(sluice)
      expect((await page.post('/dead/delete', { queue, confirmed: 'yes' })).status).toBe(400)
      expect((await page.post('/dead/delete', { queue, all: 'yes', confirmed: 'yes' })).status).toBe(400)
      const many = { queue, all: 'yes', confirmed: 'yes', before: new Date().toISOString(), total: '1000' }
      expect((await page.post('/dead/delete', many)).status).toBe(400)
      const future = { ...many, before: '9999-12-31T00:00:00Z', total: '3' }
      expect((await page.post('/dead/delete', future)).status).toBe(400)
      expect((await sluice.operate.deadLetters.summarise({ queue })).total).toBe(ids.length)
    },
  )

  test('from 1,000 on are left alone unless their number is typed, whatever the form says it is', async ({
    database,
    sluice,
    queue,
  }) => {
    await database.sql(
      `INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
       SELECT $1, n, 0, 1, '1', '{}', 1, 'broken', now() FROM generate_series(1, 1000) n`,
      [queue],
    )
    const page = new TestPage(sluice)
    const question = await (await page.post('/dead/delete', { queue, all: 'yes' })).text()
    expect(question).toContain('Type 1000 to go on')
    const form = { queue, all: 'yes', confirmed: 'yes', before: hidden(question, 'before') }
    for (const given of [{ total: '0' }, { total: '999', typed: '999' }, { total: '1000' }])
      expect((await page.post('/dead/delete', { ...form, ...given })).status).toBe(400)
    expect((await sluice.operate.deadLetters.summarise({ queue })).total).toBe(1_000)
    const typed = { ...form, total: '1000', typed: '1000' }
    expect(await page.act('/dead/delete', typed)).toContain('done=deleted&n=1000')
  })
})

function hidden(html: string, name: string): string {
  return new RegExp(`name="${name}" value="([^"]*)"`).exec(html)?.[1] ?? ''
}

async function failAll(sluice: Sluice, queue: string): Promise<void> {
  const pipeline = sluice.pipeline(queue, { maxAttempts: 1 })
  await pipeline.handle(({ payload }) => Promise.reject(new Error(`no address for ${payload}`))).runOnce()
}
