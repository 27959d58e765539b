import { expect, test } from 'vitest'
import { attentionToInboxes } from '../../../src/operate/status/of-inboxes.ts'
import { attentionToRelays } from '../../../src/operate/status/of-relays.ts'
import type { InboxStatus } from '../../../src/table/operate/peer-status.ts'

const MINUTE_MS = 60_000

const inbox = (worker: string, minutes: number, more: Partial<InboxStatus> = {}): InboxStatus => ({
  queue: 'orders-in',
  workerId: '1',
  worker,
  receiver: 'nats',
  state: 'unavailable',
  side: 'receiver',
  since: new Date(0),
  forMs: minutes * MINUTE_MS,
  cause: 'outage',
  error: 'no connection in time',
  retryAt: new Date(0),
  asOf: new Date(0),
  ...more,
})

test('of the inboxes of a queue that cannot receive the one that has waited longest needs attention', () => {
  const all = [inbox('a', 6), inbox('b', 12), inbox('c', 7, { queue: 'mail-in' }), inbox('d', 5)]
  expect(attentionToInboxes(all)).toEqual([
    {
      kind: 'inboxes.unavailable',
      severity: 'wrong',
      subject: 'orders-in',
      queue: 'orders-in',
      messages: 0,
      text: 'the inbox of worker b (and of 1 other) cannot receive from its broker, nats, for 12m: no connection in time',
      remedy:
        'npx sluice doctor # check that the broker runs and that the worker can reach it; the inbox then goes on by itself',
    },
    expect.objectContaining({
      subject: 'mail-in',
      text: expect.stringMatching(/^the inbox of worker c cannot receive/),
    }),
  ])
})

test('an inbox that is available, or has been unavailable for five minutes or less, needs none', () => {
  const available = inbox('a', 12, { state: 'available', side: null, cause: null, error: null, retryAt: null })
  expect(attentionToInboxes([available, inbox('b', 5)])).toEqual([])
})

test.for([
  [
    { cause: 'settings', error: 'no consumer' },
    'cannot receive from its broker, nats, for 6m, now because of a setting: no consumer',
    'change what the error says; after a change of its options restart the worker, else the inbox goes on by itself',
  ],
  [
    { side: 'database', error: 'disk full' },
    'cannot store what it has received from its broker, nats, for 6m: disk full',
    'look into the database for what the error says; the inbox then goes on by itself',
  ],
  [
    { receiver: null, error: null },
    'cannot receive from its broker, unnamed, for 6m',
    'check that the broker runs and that the worker can reach it; the inbox then goes on by itself',
  ],
] as const)('an inbox with %o says what it cannot, and what becomes of it', ([more, text, hint]) => {
  expect(attentionToInboxes([inbox('a', 6, more)])).toMatchObject([
    { text: `the inbox of worker a ${text}`, remedy: `npx sluice doctor # ${hint}` },
  ])
})

test('a relay that cannot publish says of how many messages', () => {
  const { receiver, side, ...peer } = inbox('a', 6)
  const queues = [{ queue: 'orders-in', ready: 3 }] as never
  expect(attentionToRelays([{ ...peer, destination: 'kafka' }], queues)).toMatchObject([
    {
      kind: 'relays.unavailable',
      messages: 3,
      text: 'the relay of worker a cannot publish to its destination, kafka, for 6m: no connection in time',
    },
  ])
})
