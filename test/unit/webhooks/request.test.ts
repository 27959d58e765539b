import { randomBytes } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { retryAfterMs } from '../../../src/outbound/retry-after.ts'
import { verdictOf } from '../../../src/outbound/verdict.ts'
import { webhookRequest } from '../../../src/outbound/webhook-request.ts'
import { WEBHOOK_ATTEMPTS, webhookRetry } from '../../../src/webhooks/retry-schedule.ts'

const secretOf = (bytes: number) => `whsec_${randomBytes(bytes).toString('base64')}`
const EVENT = {
  id: 'source_1',
  type: 'order.paid',
  at: new Date('2026-01-02T03:04:05.006Z'),
  payload: '{"n": 1.50, "text": "é"}',
}

function requestFor(secrets: readonly string[], headers = {}) {
  return webhookRequest({ url: 'https://hooks.example/', headers, secrets }, EVENT, Date.now())
}

describe('a webhook', () => {
  test.for([24, 32, 64])('has a signature that another library verifies, by a secret of %i bytes', (bytes) => {
    const secret = secretOf(bytes)
    const { body, headers } = requestFor([secret])
    expect(new Webhook(secret).verify(body.toString(), headers)).toMatchObject({ type: 'order.paid' })
    expect(() => new Webhook(secretOf(bytes)).verify(body.toString(), headers)).toThrow()
    expect(() => new Webhook(secret).verify(`${body.toString()} `, headers)).toThrow()
  })

  test('has two signatures while a secret is rotated', () => {
    const secrets = [secretOf(32), secretOf(32)]
    const { body, headers } = requestFor(secrets)
    for (const secret of secrets) new Webhook(secret).verify(body.toString(), headers)
    expect(headers['webhook-signature']?.split(' ')).toHaveLength(2)
  })

  test('has the payload as it is stored, in an envelope', () => {
    const { body, headers } = requestFor([secretOf(32)])
    expect(body.toString()).toBe(
      '{"type":"order.paid","timestamp":"2026-01-02T03:04:05.006Z","data":{"n": 1.50, "text": "é"}}',
    )
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'webhook-id': 'source_1' })
    expect(headers['content-length']).toBe(String(body.byteLength))
  })

  test('has the headers of its endpoint, which replace none of its own', () => {
    const { headers } = requestFor([secretOf(32)], {
      authorization: 'Bearer x',
      'webhook-id': 'other',
      'user-agent': 'mine',
    })
    expect(headers).toMatchObject({ authorization: 'Bearer x', 'webhook-id': 'source_1', 'user-agent': 'mine' })
  })
})

describe('the verdict of an answer', () => {
  const verdict = (status: number, retryAfter?: string, text = '') => verdictOf({ status, retryAfter, text }, 0)

  test.for([200, 201, 204, 299])('is delivered for %i', (status) => {
    expect(verdict(status, '60')).toEqual({ status, error: null, closedMs: null, gone: false })
  })

  test.for([301, 302, 307, 400, 401, 404, 418, 500])('is a failure of the message alone for %i', (status) => {
    expect(verdict(status, '60')).toEqual({ status, error: `status ${status}`, closedMs: null, gone: false })
  })

  test.for([429, 502, 503, 504])('heeds Retry-After for %i', (status) => {
    expect(verdict(status, '60')).toMatchObject({ error: `status ${status}`, closedMs: 60_000 })
    expect(verdict(status)).toMatchObject({ error: `status ${status}`, closedMs: null })
  })

  test('is gone for 410', () => {
    expect(verdict(410)).toMatchObject({ error: 'status 410', gone: true })
  })

  test('has the text of a failure, which can be stored', () => {
    expect(verdict(500, undefined, ' out\0of order\n').error).toBe('status 500: out\uFFFDof order')
  })
})

test.for([
  ['120', 120_000],
  [' 5 ', 5_000],
  ['99999999', 86_400_000],
  ['Thu, 01 Jan 2026 00:01:00 GMT', 60_000],
  ['Fri, 01 Jan 2027 00:00:00 GMT', 86_400_000],
  ['Wed, 31 Dec 2025 00:00:00 GMT', undefined],
  ['0', undefined],
  ['soon', undefined],
  [undefined, undefined],
] as const)('Retry-After %s is %s ms', ([header, ms]) => {
  expect(retryAfterMs(header, Date.parse('2026-01-01T00:00:00Z'))).toBe(ms)
})

test('a webhook is tried for three days, with waits that are up to a fifth shorter', () => {
  const waits = (random: number) =>
    Array.from({ length: WEBHOOK_ATTEMPTS - 1 }, (_, at) => webhookRetry(() => random)(at + 1, undefined) / 1_000)
  expect(waits(0)).toEqual([5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 86_400])
  expect(waits(1)).toEqual([4, 240, 1_440, 5_760, 14_400, 28_800, 40_320, 57_600, 69_120])
  expect(webhookRetry(() => 0)(50, undefined)).toBe(86_400_000)
})
