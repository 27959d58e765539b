import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished } from 'vitest'
import { serveDashboard } from '../../packages/dashboard/src/index.ts'
import type { Sluice } from '../../src/sluice.ts'
import { curl, WITHOUT_CURL } from '../support/http-server.ts'
import { spawnCli, startCli } from '../support/processes/run-cli.ts'
import { test } from '../support/sluice.ts'

/** Without the condition `sluice-source` the package is here, if somebody has built it. */
const COMPILED = fileURLToPath(new URL('../../packages/dashboard/dist', import.meta.url))

async function serve(sluice: Sluice, readOnly = false): Promise<URL> {
  const served = await serveDashboard(sluice, { user: 'ada', readOnly })
  onTestFinished(() => served[Symbol.asyncDispose]())
  return new URL(served.url)
}

describe('a page for this machine', () => {
  test('is entered by the token of its address alone, which becomes a strict cookie', async ({ sluice }) => {
    const url = await serve(sluice)
    expect(url.hostname).toBe('127.0.0.1')
    for (const path of ['/', '/dead', '/assets/dashboard.css', '/?token=', `/?token=${'x'.repeat(32)}`]) {
      expect([path, (await fetch(new URL(path, url))).status]).toEqual([path, 403])
    }
    const entered = await fetch(url, { redirect: 'manual' })
    expect([entered.status, entered.headers.get('location')]).toEqual([303, '/'])
    const elsewhere = await fetch(`${url.origin}//evil.example/${url.search}`, { redirect: 'manual' })
    expect(elsewhere.headers.get('location')).toBe('/evil.example/')
    const cookie = entered.headers.get('set-cookie') ?? ''
    expect(cookie).toMatch(/^sluice_dashboard_\d+=[\w-]{32}; HttpOnly; SameSite=Strict; Path=\/$/)
    const headers = { cookie: `other=1; ${cookie.split(';')[0]}` }
    expect((await fetch(new URL('/dead', url), { headers })).status).toBe(200)
    expect((await fetch(new URL('/dead', url), { headers: { cookie: headers.cookie.slice(0, -1) } })).status).toBe(403)
  })

  test.skipIf(WITHOUT_CURL)(
    'refuses requests for another host name, which a name server may point here',
    async ({ sluice }) => {
      const url = await serve(sluice)
      for (const host of [
        'evil.example',
        `evil.example:${url.port}`,
        '127.0.0.1',
        `127.0.0.1.evil.example:${url.port}`,
        '',
      ]) {
        const received = await curl(url.href, '-o', '/dev/null', '-H', `Host: ${host}`)
        expect([host, received.status]).toEqual([host, host === '' ? 400 : 403])
      }
      expect((await curl(url.href, '-o', '/dev/null', '-H', `Host: localhost:${url.port}`)).status).toBe(303)
    },
  )

  test('changes nothing if it is read-only', async ({ sluice, queue }) => {
    const url = await serve(sluice, true)
    const [cookie = ''] = ((await fetch(url, { redirect: 'manual' })).headers.get('set-cookie') ?? '').split(';')
    const init = {
      method: 'POST',
      headers: { cookie, origin: url.origin },
      body: new URLSearchParams({ confirmed: 'yes' }),
    }
    expect((await fetch(new URL(`/queues/${queue}/pause`, url), init)).status).toBe(403)
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })
})

describe('sluice dashboard', () => {
  test('prints the address, acts in the name of the user, and ends by a signal', async ({
    sluice,
    database,
    queue,
  }) => {
    const env = { DATABASE_URL: database.url, NODE_OPTIONS: '--conditions=sluice-source' }
    const child = startCli(['dashboard'], env)
    onTestFinished(() => void child.kill('SIGKILL'))
    const [line = ''] = await firstLine(child.stdout)
    const url = new URL(/http:\S+/.exec(line)?.[0] ?? '')
    const [cookie = ''] = ((await fetch(url, { redirect: 'manual' })).headers.get('set-cookie') ?? '').split(';')
    const init = {
      method: 'POST',
      headers: { cookie, origin: url.origin },
      body: new URLSearchParams({ confirmed: 'yes' }),
    }
    expect((await fetch(new URL(`/queues/${queue}/pause`, url), init)).status).toBe(200)
    expect((await sluice.operate.queues.settings.get(queue))?.pausedBy).toMatch(/^\w+@./)
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
  })

  test.skipIf(existsSync(COMPILED))('says how to install the package where it is missing', async ({ database }) => {
    const result = await spawnCli(['dashboard'], { DATABASE_URL: database.url })
    expect(result).toMatchObject({ code: 2, stderr: expect.stringContaining('npm install sluice-dashboard') })
  })
})

async function firstLine(stream: NodeJS.ReadableStream): Promise<readonly string[]> {
  for await (const line of createInterface({ input: stream })) return [line]
  return []
}
