import { describe, expect, test } from 'vitest'
import { createSluice, retryLater } from '../../../src/index.ts'

/** Nothing is there: a check that comes too late shows as another error. */
const sluice = createSluice({ connection: 'postgres://127.0.0.1:1/nowhere', queues: { emails: {} } })
const { claims } = sluice.operate

const REFUSED: readonly (readonly [what: string, call: () => Promise<unknown>, message: string])[] = [
  ['a queue that is not defined', () => sluice.claim('email' as never), 'QUEUE_UNKNOWN: queue'],
  ['a wrong name of a queue', () => sluice.pop('-' as never), 'QUEUE_NAME_INVALID: queue'],
  [
    'a limit of 0',
    () => sluice.claim('emails', { limit: 0 }),
    'OPTION_INVALID: claim.limit: expected an integer from 1 to 1000',
  ],
  ['a limit of 1,001', () => sluice.pop('emails', { limit: 1_001 }), 'OPTION_INVALID: pop.limit'],
  [
    'a lease below a second',
    () => sluice.claim('emails', { lease: 999 }),
    "OPTION_INVALID: claim.lease: expected a duration from '1s' to '14d'",
  ],
  ['a lease of 15 days', () => sluice.claim('emails', { lease: '15d' }), 'OPTION_INVALID: claim.lease'],
  ['a wait of 6 minutes', () => sluice.claim('emails', { wait: '6m' }), 'OPTION_INVALID: claim.wait'],
  ['no attempt', () => sluice.claim('emails', { maxAttempts: 0 }), 'OPTION_INVALID: claim.maxAttempts'],
  ['what is no signal', () => sluice.claim('emails', { signal: {} as never }), 'OPTION_INVALID: claim.signal'],
  [
    'an option of pipelines',
    () => sluice.claim('emails', { ordered: true } as never),
    'OPTION_INVALID: claim: expected only the options',
  ],
  ['an option that is misspelt', () => sluice.claim('emails', { limmit: 1 } as never), 'Did you mean limit?'],
  ['an option of claims for pop', () => sluice.pop('emails', { lease: '1m' } as never), 'OPTION_INVALID: pop'],
  [
    'a number as the number of a claim',
    () => claims.get('emails', 7 as never),
    "OPTION_INVALID: claim: expected a claim's id, which is digits as text, received 7",
  ],
  ['a text as the number of a claim', () => claims.release('emails', 'x'), 'OPTION_INVALID: claim'],
  ['a number beyond a bigint', () => claims.renew('emails', '9223372036854775808'), 'OPTION_INVALID: claim'],
  ['a short renewal', () => claims.renew('emails', '7', 10), 'OPTION_INVALID: renew'],
  [
    'what is no message',
    () => claims.settle('emails', '7', [{}] as never),
    "OPTION_INVALID: settle[0]: expected a message's id",
  ],
  [
    'too many messages',
    () =>
      claims.settle(
        'emails',
        '7',
        Array.from({ length: 1_001 }, () => '1'),
      ),
    'OPTION_INVALID: settle: expected at most 1000 messages',
  ],
  [
    'what is no outcome',
    () => claims.settle('emails', '7', '1', 'ack' as never),
    'OPTION_INVALID: settle: expected nothing, ack()',
  ],
  ['an option of no list', () => claims.list({ limit: 0 }), 'OPTION_INVALID: claims.list.limit'],
]

describe('claims refuse before they connect', () => {
  test.for(REFUSED)('%s', async ([, call, message]) => {
    const error = await call().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Error)
    const { code = '', message: said = '' } = error as { readonly code?: string; readonly message?: string }
    expect(`${code}: ${said}`).toContain(message)
  })

  test('a signal that has aborted, with its reason', async () => {
    const reason = new Error('enough')
    await expect(sluice.claim('emails', { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
  })
})

test('what is right goes on to connect', async () => {
  await expect(claims.settle('emails', '7', '1', retryLater())).rejects.toMatchObject({ code: 'UNREACHABLE' })
})
