import { describe, expect, test } from 'vitest'
import { DeliveredMessage } from '../../../src/claim/delivered-message.ts'
import { ack, deadLetter, retryLater, snooze } from '../../../src/message.ts'
import { decide, decideBack, decideDropped, decideHarmful, type Rules } from '../../../src/settle/decide.ts'
import { holdsBack } from '../../../src/settle/decision.ts'
import type { ClaimedRow } from '../../../src/table/claim/claim.ts'
import { claimedRow } from '../../support/rows/claimed-row.ts'

const NOW_US = 5_000_000

const RULES: Rules = {
  queue: 'mails',
  attempts: { mostOf: () => 3, retryInMs: ({ attempt }) => attempt * 1_000 },
  // An answer of the server that took a millisecond: the clock lies between.
  clock: { nowUs: () => NOW_US, passedUs: () => NOW_US - 1_000 },
  workerName: () => 'web-1',
}

const message = (row: Partial<ClaimedRow> = {}) => new DeliveredMessage('mails', claimedRow({ id: '7', ...row }))

const options = {
  expiresUs: null,
  retryPolicy: null,
  leaseMs: null,
  tenant: null,
  dedupeKey: null,
  dedupeMs: null,
  eventPosition: null,
}

describe('a message that has succeeded', () => {
  test('is gone, and reports nothing', () => {
    const decided = decide(message(), ack(), undefined, RULES)
    expect(decided).toMatchObject({ decision: { kind: 'gone', why: 'acked' }, outcome: { kind: 'ack' } })
    expect(decided.event).toBeUndefined()
    expect(holdsBack(decided)).toBe(false)
  })

  test.each([
    ['as long as it asks for', { dedupeKey: 'k', dedupeMs: 100 }, ack(), null],
    ['as long as its handler says', { dedupeKey: 'k', dedupeMs: null }, ack({ dedupeFor: '1s' }), 1_000],
    ['no longer, if its handler says so', { dedupeKey: 'k', dedupeMs: 100 }, ack({ dedupeFor: 0 }), undefined],
    ['no longer, without a time', { dedupeKey: 'k', dedupeMs: null }, ack(), undefined],
    ['not at all, without a key', {}, ack({ dedupeFor: '1s' }), undefined],
  ])('keeps its dedupe key %s', (_, own, outcome, keepKeyMs) => {
    const { decision } = decide(message({ options: { ...options, ...own } }), outcome, undefined, RULES)
    expect(decision).toEqual(
      keepKeyMs === undefined ? { kind: 'gone', why: 'acked' } : expect.objectContaining({ keepKeyMs }),
    )
  })
})

describe('a message that has failed', () => {
  test('is due again when its policy says, by the later estimate of the clock, with its error', () => {
    const decided = decide(message({ attempt: 1 }), { kind: 'retryLater', error: 'broken' }, new Error('broken'), RULES)
    expect(decided.decision).toMatchObject({ kind: 'later', dueUs: NOW_US + 2_000_000, attempt: 2, error: 'broken' })
    expect(decided.decision).toMatchObject({ atOnce: false, details: { worker: 'web-1' } })
    expect(decided.event).toMatchObject({ kind: 'message.failed', attempt: 2, retryInMs: 2_000 })
    expect(holdsBack(decided)).toBe(true)
  })

  test('that is tried again at once is due by the earlier estimate, for every claim that is sent from now on', () => {
    const { decision } = decide(message(), retryLater({ after: 0 }), undefined, RULES)
    expect(decision).toMatchObject({ kind: 'later', dueUs: NOW_US - 1_000, atOnce: true })
  })

  test.each([
    ['when its policy says, if that is not sooner than it may be', 500, 1_000],
    ['when it may be, if its policy says sooner', 60_000, 60_000],
  ])('is due %s', (_, atLeast, inMs) => {
    const decided = decide(message(), retryLater({ atLeast, error: 'busy' }), undefined, RULES)
    expect(decided.decision).toMatchObject({ kind: 'later', dueUs: NOW_US + inMs * 1_000, error: 'busy' })
    expect(decided.outcome).toEqual({ kind: 'retryLater', afterMs: inMs, error: 'busy' })
  })

  test('as often as it may is a dead letter, whenever it may be tried again', () => {
    const { decision } = decide(message({ attempt: 2 }), retryLater({ atLeast: '1h' }), undefined, RULES)
    expect(decision).toMatchObject({ kind: 'dead', attempt: 3 })
  })

  test('is due when it expires, if that comes first', () => {
    const expiring = message({ options: { ...options, expiresUs: NOW_US + 300_000 } })
    const decided = decide(expiring, retryLater({ after: '1h' }), undefined, RULES)
    expect(decided.decision).toMatchObject({ dueUs: NOW_US + 300_000 })
    expect(decided.outcome).toMatchObject({ kind: 'retryLater', afterMs: 300 })
  })

  test('as often as it may is a dead letter', () => {
    const decided = decide(message({ attempt: 2 }), { kind: 'retryLater', error: 'broken' }, new Error('broken'), RULES)
    expect(decided.decision).toMatchObject({
      kind: 'dead',
      attempt: 3,
      reason: 'failed 3 of 3 attempts',
      error: 'broken',
    })
    expect(decided.event).toMatchObject({ kind: 'message.dead', attempt: 3 })
    expect(holdsBack(decided)).toBe(false)
  })

  test('as often as it may blocks its partition, in a group that stops', () => {
    const stopping = { ...RULES, stopsAt: () => 4 }
    const event = message({ attempt: 2, options: { ...options, eventPosition: 9 } })
    const decided = decide(event, { kind: 'retryLater', error: 'broken' }, undefined, stopping)
    expect(decided.decision).toMatchObject({ kind: 'blocked', attempt: 3, error: 'failed 3 of 3 attempts: broken' })
    expect(decided.event).toMatchObject({ kind: 'partition.stopped', partition: 4, position: 9 })
    expect(holdsBack(decided)).toBe(true)
  })
})

test('a message that is snoozed is due later, with no attempt counted', () => {
  const { decision } = decide(message({ attempt: 1 }), snooze({ after: '1s' }), undefined, RULES)
  expect(decision).toMatchObject({ kind: 'later', dueUs: NOW_US + 1_000_000, attempt: 1, error: null })
})

test('a message that its handler gives up is a dead letter at once', () => {
  const { decision, outcome } = decide(message(), deadLetter('no such user', 'broken'), undefined, RULES)
  expect(decision).toMatchObject({ kind: 'dead', attempt: 1, reason: 'no such user', error: 'broken' })
  expect(outcome).toEqual({ kind: 'deadLetter', reason: 'no such user', error: 'broken' })
})

test('a message whose handler is not called any more dies of the attempts before', () => {
  const { decision } = decideHarmful(message({ attempt: 1 }), '3 processes died with it', RULES)
  expect(decision).toMatchObject({ kind: 'dead', attempt: 1, reason: '3 processes died with it', error: null })
})

test.each(['expired', 'cancelled'] as const)('a message that is %s is gone without an outcome', (why) => {
  const decided = decideDropped(message(), why, RULES)
  expect(decided).toMatchObject({
    decision: { kind: 'gone', why },
    outcome: undefined,
    event: { kind: `message.${why}` },
  })
})

describe('a message that goes back', () => {
  test('has its first due time, and so its place among the others', () => {
    const { decision } = decideBack(message({ dueUs: NOW_US - 60_000_000, attempt: 1 }), RULES)
    expect(decision).toEqual({ kind: 'back', dueUs: NOW_US - 60_000_000, atOnce: true, attempt: 1 })
  })

  test('is due at once if its key gives it its place, also if the clock has been set back since', () => {
    const { decision } = decideBack(message({ slot: 3, orderingKey: 'k', dueUs: NOW_US + 60_000_000 }), RULES)
    expect(decision).toMatchObject({ kind: 'back', dueUs: NOW_US - 1_000 })
  })
})
