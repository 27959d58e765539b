import { describe, expect } from 'vitest'
import { dashboard } from '../../packages/dashboard/src/index.ts'
import { BASE, ORIGIN, OWN_FORM, TestPage } from '../support/dashboard.ts'
import { put, startTestSluice, test } from '../support/sluice.ts'
import { raise } from '../support/steps.ts'

const PATHS = [
  '/',
  '/queues/orders',
  '/queues/orders/messages/1',
  '/dead',
  '/workers',
  '/schedules',
  '/streams',
  '/assets/dashboard.js',
]

describe('a page', () => {
  test('without authorize answers 403 to everyone, everywhere, and says why', async ({ sluice }) => {
    const handler = dashboard(sluice, { basePath: BASE })
    for (const path of [...PATHS, '/nothing']) {
      const answer = await handler(new Request(`${ORIGIN}${BASE}${path}`))
      expect([path, answer.status]).toEqual([path, 403])
      expect(await answer.text()).toContain('mounted without authorize')
    }
    const acted = await handler(
      new Request(`${ORIGIN}${BASE}/queues/orders/pause`, { method: 'POST', headers: OWN_FORM }),
    )
    expect(acted.status).toBe(403)
  })

  for (const refusal of [
    null,
    undefined,
    false,
    true,
    {},
    { user: 'ada' },
    { user: '', may: 'act' },
    { user: 'ada', may: 'all' },
  ]) {
    test(`lets nobody in of whom authorize says ${JSON.stringify(refusal)}`, async ({ sluice }) => {
      const page = new TestPage(sluice, { authorize: () => refusal as null })
      for (const path of PATHS) expect([path, (await page.send(path)).status]).toEqual([path, 403])
    })
  }

  test('sends the Response of authorize, with the headers of the page', async ({ sluice }) => {
    const page = new TestPage(sluice, { authorize: () => Response.redirect('https://login.example.com/', 302) })
    const answer = await page.send('/')
    expect([answer.status, answer.headers.get('location')]).toEqual([302, 'https://login.example.com/'])
    expect(answer.headers.get('x-frame-options')).toBe('DENY')
  })

  test('does not say why authorize has failed', async ({ sluice }) => {
    const errors: unknown[] = []
    const failure = new Error('no session store at 10.0.0.7')
    const authorize = () => Promise.reject(failure)
    const answer = await new TestPage(sluice, { authorize, onError: (error) => errors.push(error) }).send('/')
    expect(answer.status).toBe(500)
    expect(await answer.text()).not.toContain('10.0.0.7')
    expect(errors).toEqual([failure])
  })

  test.for([
    ['throws', () => raise(new Error('no log'))],
    ['is async, and rejects', () => Promise.reject(new Error('no log'))],
  ] as const)('answers also if onError %s', async ([, onError], { sluice }) => {
    const answer = await new TestPage(sluice, { authorize: () => raise(new Error('no session store')), onError }).send(
      '/',
    )
    expect(answer.status).toBe(500)
  })

  test('may be kept by no one, framed by no one, and runs nothing inline', async ({ sluice }) => {
    const page = new TestPage(sluice)
    for (const path of [...PATHS, '/nothing']) {
      const { headers } = await page.send(path)
      const policy = headers.get('content-security-policy') ?? ''
      expect(policy).toContain("default-src 'none'")
      expect(policy).toContain("frame-ancestors 'none'")
      expect(policy).toContain("form-action 'self'")
      expect(policy).not.toContain('unsafe')
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      expect(headers.get('referrer-policy')).toBe('no-referrer')
      expect(headers.get('cache-control')).toMatch(path.startsWith('/assets') ? /^private/ : /^no-store$/)
    }
    const html = await page.get('/')
    expect(html).not.toMatch(/<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=|javascript:/i)
  })

  test('answers under its base path, with and without a slash, and elsewhere names it', async ({ sluice }) => {
    const handler = dashboard(sluice, { basePath: BASE, authorize: () => ({ user: 'ada', may: 'read' }) })
    const statusOf = async (path: string) => (await handler(new Request(`${ORIGIN}${path}`))).status
    expect(await Promise.all([BASE, `${BASE}/`, `${BASE}/dead`, `${BASE}/dead/`].map(statusOf))).toEqual([
      200, 200, 200, 200,
    ])
    const answer = await handler(new Request(`${ORIGIN}/dead`))
    expect([answer.status, await answer.text()]).toEqual([404, expect.stringContaining(BASE)])
  })

  test('answers HEAD without a body, and refuses other methods', async ({ sluice }) => {
    const page = new TestPage(sluice)
    const head = await page.send('/', { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (const method of ['PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
      expect((await page.send('/queues/orders/pause', { method, headers: OWN_FORM })).status).toBe(405)
    }
  })

  test('says that there is no connection, and not to where', async ({ database }) => {
    const url = new URL(database.url)
    url.port = '1'
    const sluice = startTestSluice({ url: url.href })
    const errors: unknown[] = []
    const answer = await new TestPage(sluice, { onError: (error) => errors.push(error) }).send('/workers')
    expect(answer.status).toBe(503)
    expect(await answer.text()).not.toMatch(/127\.0\.0\.1|localhost|ECONNREFUSED/)
    expect(errors).toMatchObject([{ code: 'UNREACHABLE' }])
  })
})

describe('an option', () => {
  for (const [options, words] of [
    [{ basePath: '/admin/' }, 'dashboard.basePath'],
    [{ basePath: 'admin' }, 'dashboard.basePath'],
    [{ basePath: '/a"><script>' }, 'dashboard.basePath'],
    [{ basePath: '/a/../b' }, 'dashboard.basePath'],
    [{ basePath: '/./b' }, 'dashboard.basePath'],
    [{ readOnly: 'yes' }, 'dashboard.readOnly'],
    [{ authorize: true }, 'dashboard.authorize'],
    [{ mask: 'password' }, 'dashboard.mask'],
    [{ origin: 'ops.example.com' }, 'dashboard.origin'],
    [{ prefix: '/admin' }, 'received "prefix"'],
  ] as const) {
    test(`that does not fit is refused: ${JSON.stringify(options)}`, ({ sluice }) => {
      expect(() => dashboard(sluice, options as object)).toThrow(words)
    })
  }
})

/** What other sites can make a browser send, and what programs can. */
const FORGED: readonly (readonly [string, Record<string, string>])[] = [
  ['cross-site', { 'sec-fetch-site': 'cross-site', origin: 'https://evil.example' }],
  ['cross-site with our origin', { 'sec-fetch-site': 'cross-site', origin: ORIGIN }],
  ['same-site', { 'sec-fetch-site': 'same-site', origin: 'https://other.example.com' }],
  ['of no site', { 'sec-fetch-site': 'none' }],
  ['empty', { 'sec-fetch-site': '' }],
  ['from another origin, by an old browser', { origin: 'https://evil.example' }],
  ['from a subdomain', { origin: 'https://x.ops.example.com' }],
  ['from a name that begins with ours', { origin: 'https://ops.example.com.evil.example' }],
  ['from another port', { origin: 'https://ops.example.com:8443' }],
  ['from a sandbox', { origin: 'null' }],
  ['with a referrer only', { referer: `${ORIGIN}${BASE}/` }],
  ['from nowhere', {}],
]

const TYPES = [
  'application/x-www-form-urlencoded',
  'text/plain',
  'application/json',
  'multipart/form-data; boundary=x',
  '',
]

describe('a forged request', () => {
  for (const [what, headers] of FORGED) {
    test(`${what}, changes nothing, whatever its content type is`, async ({ sluice, queue }) => {
      await put(sluice, queue, [1])
      const page = new TestPage(sluice)
      for (const type of TYPES) {
        const answer = await page.post(
          `/queues/${queue}/pause`,
          { confirmed: 'yes' },
          { ...headers, 'content-type': type },
        )
        expect([type, answer.status]).toEqual([type, 403])
      }
      expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
    })
  }

  test('by GET changes nothing', async ({ sluice, queue }) => {
    const page = new TestPage(sluice)
    expect((await page.send(`/queues/${queue}/pause?confirmed=yes`)).status).toBe(404)
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })

  test('is one of another type than a form, also from the page itself', async ({ sluice, queue }) => {
    const page = new TestPage(sluice)
    for (const type of TYPES.slice(1)) {
      const headers = { 'sec-fetch-site': 'same-origin', 'content-type': type }
      expect((await page.post(`/queues/${queue}/pause`, { confirmed: 'yes' }, headers)).status).toBe(415)
    }
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })
})

describe('a form of the page', () => {
  test('is taken from an old browser by its origin, and behind a proxy by the option', async ({ sluice, queue }) => {
    const form = { 'content-type': 'application/x-www-form-urlencoded' }
    const fields = { confirmed: 'yes' }
    const page = new TestPage(sluice)
    expect((await page.post(`/queues/${queue}/pause`, fields, { ...form, origin: ORIGIN })).status).toBe(303)
    const behind = new TestPage(sluice, { origin: 'https://queues.example' })
    expect((await behind.post(`/queues/${queue}/resume`, fields, { ...form, origin: ORIGIN })).status).toBe(403)
    const named = { ...form, origin: 'https://queues.example' }
    expect((await behind.post(`/queues/${queue}/resume`, fields, named)).status).toBe(303)
  })

  test('changes nothing for those who may only read, or where the page is read-only', async ({ sluice, queue }) => {
    const readers = [
      new TestPage(sluice, { authorize: () => ({ user: 'eve', may: 'read' }) }),
      new TestPage(sluice, { readOnly: true }),
    ]
    for (const page of readers) {
      expect(await page.get(`/queues/${queue}`)).not.toContain('method="post"')
      expect((await page.post(`/queues/${queue}/pause`, { confirmed: 'yes' })).status).toBe(403)
    }
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })

  test('may have 64 kB, whether it says so or not', async ({ sluice, queue }) => {
    const page = new TestPage(sluice)
    const large = { confirmed: 'yes', reason: 'x'.repeat(70_000) }
    expect((await page.post(`/queues/${queue}/pause`, large)).status).toBe(413)
    const stream = ReadableStream.from([Buffer.from('confirmed=yes&reason='), Buffer.alloc(70_000, 'x')])
    const init = { method: 'POST', headers: OWN_FORM, body: stream, duplex: 'half' } as RequestInit
    expect((await page.send(`/queues/${queue}/pause`, init)).status).toBe(413)
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })
})
