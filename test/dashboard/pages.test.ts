import { describe, expect } from 'vitest'
import { TestPage } from '../support/dashboard.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'

/** What anybody may store who can enqueue. */
const HOSTILE = `"'><script>pwned()</script><img src=x onerror=pwned()>\u202Egnp.exe`
const ESCAPED = '&lt;script&gt;pwned()&lt;/script&gt;'

describe('the overview', () => {
  test('counts the messages of each queue, and says what needs attention, with a link', async ({ sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3])
    await put(sluice, queue, [4], { delay: '1h' })
    await sluice.operate.queues.pause(queue, { by: 'bob', reason: 'the provider is down' })
    const html = await new TestPage(sluice).counted('/')
    expect(html).toContain(`href="/admin/sluice/queues/${queue}"`)
    expect(html).toContain('aria-label="3 ready, 1 scheduled"')
    expect(html).toMatch(/paused \d+m?s ago by bob: the provider is down; 3 ready/)
  })

  test('says which queue has waited for a worker for more than a minute', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    await database.sql(`UPDATE sluice.message SET due_at = due_at - interval '61 seconds' WHERE queue = $1`, [queue])
    expect(await new TestPage(sluice).counted('/')).toMatch(/1 ready, the oldest for 1m \d+s, and no live worker/)
  })

  test('shows a number once for all who look, and a new one after an action', async ({ sluice, queue }) => {
    await put(sluice, queue, [1])
    const page = new TestPage(sluice)
    expect(await page.counted('/')).not.toContain('by ada@example.com')
    await page.act(`/queues/${queue}/pause`)
    await page.counted('/', 'by ada@example.com')
  })
})

describe('a list of many queues', () => {
  test('has pages of a hundred, those that need attention first, and a filter', async ({ sluice, database }) => {
    await database.sql(
      `INSERT INTO sluice.message (queue, payload, due_at)
       SELECT 'many.' || to_char(n, 'FM0000'), '{}', clock_timestamp() + interval '1 day' FROM generate_series(1, 230) n`,
    )
    await sluice.operate.queues.pause('many.0222', { by: 'ada' })
    const page = new TestPage(sluice)
    const first = await page.counted('/?queue=MANY.', 'many.0001')
    expect(queuesIn(first)).toHaveLength(100)
    expect(queuesIn(first).slice(0, 2)).toEqual(['many.0222', 'many.0001'])
    expect(first).toContain('Page 1 of 3, 230 in all')
    const last = await page.get('/?queue=many.&page=3')
    expect(queuesIn(last).at(-1)).toBe('many.0230')
    expect(queuesIn(await page.get('/?queue=0007'))).toEqual(['many.0007'])
    expect(await page.get('/?queue=%3Cnothing%3E')).toContain('No queue has this name.')
    await database.sql(`DELETE FROM sluice.message WHERE queue LIKE 'many.%'`)
  })
})

describe('a queue', () => {
  test('lists its messages by pages, and filters them', async ({ sluice, queue }) => {
    const ids = await put(
      sluice,
      queue,
      Array.from({ length: 60 }, (_, at) => at),
      { type: 'order.paid' },
    )
    const [other] = await put(sluice, queue, ['x'], { type: 'order.lost' })
    const page = new TestPage(sluice)
    const first = await page.get(`/queues/${queue}`)
    expect(idsIn(first)).toEqual([other, ...ids.toReversed()].slice(0, 50))
    const [, next = ''] = /<a href="([^"]*after=[^"]*)">Next page/.exec(first) ?? []
    expect(idsIn(await page.get(next.replace('/admin/sluice', '').replaceAll('&amp;', '&')))).toEqual(
      ids.slice(0, 11).toReversed(),
    )
    expect(idsIn(await page.get(`/queues/${queue}?type=order.lost`))).toEqual([other])
    expect(await page.get(`/queues/${queue}?state=retrying`)).toContain('No message matches.')
  })

  test('shows its settings, its limits and which keys are held by which message', async ({ sluice, queue }) => {
    await sluice.operate.queues.settings.set(queue, { maxAttempts: 7, concurrency: 3, rate: { limit: 100 } })
    const [first = ''] = await put(sluice, queue, [1, 2, 3], { orderingKey: 'customer 7' })
    const retry = { kind: 'fixed', delay: '1h' } as const
    await sluice
      .pipeline(queue, { retry })
      .handle(() => Promise.reject(new Error('no stock')))
      .runOnce()
    const html = await new TestPage(sluice).counted(`/queues/${queue}`)
    expect(html).toContain('<dt>Attempts</dt><dd>7</dd>')
    expect(html).toContain('100 per 1s')
    expect(html).toContain('customer 7')
    expect(html).toContain(`/messages/${first}">${first}</a>`)
    expect(html).toContain('no stock')
  })
})

describe('the last hour', () => {
  test('is drawn by minutes, with its numbers in words, and without gaps filled in', async ({
    sluice,
    queue,
    database,
  }) => {
    const buckets = { maxMs: 40, totalMs: 80, buckets: { 60: 2 } }
    const done = { acked: 120, retried: 1, snoozed: 0, dead: 2, batches: 2, waiting: buckets, handling: buckets }
    await database.sql(
      `INSERT INTO sluice.worker_activity (at, worker_id, number, queues)
       SELECT now() - m * interval '1 minute', 9, m, jsonb_build_object($1::text, $2::jsonb) FROM unnest('{3,4,30,90}'::int[]) m`,
      [queue, JSON.stringify(done)],
    )
    const html = await new TestPage(sluice).get(`/queues/${queue}`)
    expect(html).toContain('aria-label="Handled: handled: 2.0/s last, 2.0/s at most"')
    expect(html).toContain('aria-label="Failed: failed: 3 a minute last, 3 a minute at most"')
    expect(html).toMatch(/aria-label="Waited: p50: \d+ms last, \d+ms at most; p99: 36ms last, 36ms at most"/)
    const [, columns = ''] = /<g class="fill-main">([\s\S]*?)<\/g>/.exec(html) ?? []
    expect(columns.match(/<rect/g)).toHaveLength(3)
    const [, lines = ''] = /<g class="line-second">([\s\S]*?)<\/g>/.exec(html) ?? []
    expect(lines.match(/<polyline/g)).toHaveLength(2)
    expect(await new TestPage(sluice).get(`/queues/${queue}.other`)).toContain(
      'aria-label="Handled: nothing in this time"',
    )
  })
})

describe('the backlog', () => {
  test('of the last hour is drawn with its lag, from what maintenance has written down', async ({
    sluice,
    queue,
    database,
  }) => {
    await database.sql(
      `INSERT INTO sluice.backlog_sample (at, queues, groups)
       SELECT now() - m * interval '5 minutes', jsonb_build_object($1::text, jsonb_build_array(m, 60000)), '{}' FROM unnest('{2,3,8}'::int[]) m`,
      [queue],
    )
    const html = await new TestPage(sluice).get(`/queues/${queue}`)
    expect(html).toContain('aria-label="Backlog: due: 2 last, 8 at most"')
    expect(html).toContain('aria-label="Lag: oldest: 1m last, 1m at most"')
    expect(await new TestPage(sluice).get(`/queues/${queue}.other`)).toContain('Backlog: due: 0 last, 0 at most')
  })
})

describe('a message', () => {
  test('is shown with all digits of its payload, and without what is masked', async ({ sluice, queue, database }) => {
    const [id] = await put(sluice, queue, [{ card: '4111', nested: [{ Password: 'hunter2' }] }], {
      headers: { token: 'secret', trace: 'abc' },
    })
    await database.sql(
      `UPDATE sluice.message SET payload = payload || '{"big": 9223372036854775807.10}' WHERE queue = $1`,
      [queue],
    )
    const path = `/queues/${queue}/messages/${id}`
    const open = await new TestPage(sluice).get(path)
    expect(open).toContain('9223372036854775807.10')
    expect(open).toContain('hunter2')
    const masked = await new TestPage(sluice, { mask: ['password', 'CARD', 'token'] }).get(path)
    expect(masked).toContain('9223372036854775807.10')
    expect(masked).toContain('abc')
    expect(masked).not.toMatch(/hunter2|4111|secret/)
    expect(await new TestPage(sluice, { mask: true }).get(path)).not.toMatch(/hunter2|4111|secret|abc|9223/)
  })

  test('that is gone is said to be so, and one of a queue that keeps history is shown', async ({ sluice, queue }) => {
    const page = new TestPage(sluice)
    expect(await page.get(`/queues/${queue}/messages/999999`)).toContain('Nothing is known of it')
    await sluice.operate.queues.settings.set(queue, { history: '1d' })
    const [id] = await put(sluice, queue, [{ kept: 'yes' }])
    await sluice
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    expect(await page.get(`/queues/${queue}/messages/${id}`)).toMatch(/succeeded[\s\S]*kept/)
  })

  test('has an id, which is a number', async ({ sluice, queue }) => {
    expect((await new TestPage(sluice).send(`/queues/${queue}/messages/x`)).status).toBe(404)
    expect((await new TestPage(sluice).send(`/queues/${encodeURIComponent('<b>')}`)).status).toBe(404)
  })
})

describe('a queue that another application uses', () => {
  test('is on the overview, and its page says why it cannot be opened', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    const page = new TestPage(startTestSluice(database, { queues: { emails: {} } }) as never)
    expect(await page.counted('/')).toContain(queue)
    const answer = await page.send(`/queues/${queue}`)
    expect(answer.status).toBe(404)
    const refused = await answer.text()
    expect(refused).toContain('This application does not define this queue')
    expect(refused).toContain('from a Sluice without the option queues')
  })
})

describe('whatever is stored', () => {
  test('is shown as text on every page', async ({ sluice, queue }) => {
    const options = { type: HOSTILE.replaceAll(' ', ''), orderingKey: HOSTILE, headers: { [HOSTILE]: HOSTILE } }
    const [held] = await put(sluice, queue, [{ [HOSTILE]: HOSTILE }, 2], options)
    await sluice.operate.queues.pause(queue, { by: HOSTILE, reason: HOSTILE })
    await sluice.operate.schedules.set(`s.${queue}`, { every: '1h', queue, payload: HOSTILE })
    await sluice.operate.schedules.pause(`s.${queue}`, { by: HOSTILE, reason: HOSTILE })
    await put(sluice, `${queue}.dead`, [{ [HOSTILE]: HOSTILE }], { type: HOSTILE.replaceAll(' ', ''), tenant: HOSTILE })
    await sluice
      .pipeline(`${queue}.dead`, { maxAttempts: 1 })
      .handle(() => Promise.reject(new Error(HOSTILE)))
      .runOnce()
    const page = new TestPage(sluice, { authorize: () => ({ user: HOSTILE, may: 'act' }) })
    const paths = [
      '/',
      `/queues/${queue}`,
      `/queues/${queue}/messages/${held}`,
      '/dead',
      `/dead?error=${encodeURIComponent(HOSTILE)}`,
      '/workers',
      '/schedules',
    ]
    for (const path of paths) {
      const html = await page.counted(path)
      expect([path, html.includes(ESCAPED)]).toEqual([path, true])
      expect(html).not.toMatch(/<script>|<img|\u202E/)
    }
    const question = await (
      await page.post('/dead/delete', { all: 'yes', error: HOSTILE, type: HOSTILE.replaceAll(' ', '') })
    ).text()
    expect(question).toContain(ESCAPED)
    expect(question).not.toMatch(/<script>|<img|\u202E/)
  })

  test('in an address puts no words into the page', async ({ sluice }) => {
    const html = await new TestPage(sluice).get(`/?done=${encodeURIComponent('call 555-1234')}&n=x`)
    expect(html).not.toContain('555-1234')
    expect(await new TestPage(sluice).get('/dead?done=redriven&n=3')).toContain('3 dead letters put back')
  })
})

function idsIn(html: string): readonly string[] {
  return [...html.matchAll(/messages\/(\d+)">/g)].map(([, id = '']) => id)
}

/** Those in the table of queues. */
function queuesIn(html: string): readonly string[] {
  return [...html.matchAll(/<td class="start" data-title="Queue"><div><a href="[^"]*\/queues\/([^"/]+)">/g)].map(
    ([, name = '']) => name,
  )
}
