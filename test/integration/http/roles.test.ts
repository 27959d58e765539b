import { expect } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { test } from '../../support/servers/logins.ts'
import { startTestSluice } from '../../support/sluice.ts'

const messages = [{ payload: 1 }]

/** The least that each action needs. */
const ACTIONS = [
  ['sluice_producer', 'messages', { messages }, 201],
  ['sluice_claimer', 'claims', {}, 204],
  ['sluice_claimer', 'claims', { wait: '10ms' }, 204],
  ['sluice_claimer', 'pop', {}, 204],
  ['sluice_reader', '', undefined, 200],
  ['sluice_reader', 'messages', { messages }, 500],
  ['sluice_producer', 'claims', {}, 500],
  ['sluice_claimer', '', undefined, 500],
] as const

test.for(ACTIONS)(
  'with the role %s alone, /queues/q/%s %j is answered with %i',
  async ([role, path, body, status], { login }) => {
    const sluice = startTestSluice(await login(role))
    const handler = createHttpHandler(sluice, { authorize: () => true })
    const headers = { 'content-type': 'application/json' }
    const url = `https://example.com/queues/${role}${path === '' ? '' : `/${path}`}`
    const answer = await handler(new Request(url, body && { method: 'POST', headers, body: JSON.stringify(body) }))
    expect(answer.status).toBe(status)
    if (status === 500) expect(await answer.json()).toMatchObject({ code: 'PRIVILEGE_MISSING' })
  },
)
