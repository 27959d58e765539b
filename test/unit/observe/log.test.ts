import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { Lines, type SluiceLog } from '../../../src/telemetry/log.ts'

const ASKED = {
  kind: 'message.failed',
  queue: 'mail',
  id: '7',
  type: 'welcome',
  attempt: 2,
  error: 'Error: busy',
  retryInMs: 2_000,
} as const
const FAILED = {
  ...ASKED,
  cause: thrownAt('at charge (/app/pay.ts:12:5)', 'at two', 'at three', 'at four'),
} as const
const DEAD = {
  kind: 'message.dead',
  queue: 'mail',
  id: '8',
  type: null,
  attempt: 20,
  reason: 'gone',
  error: null,
} as const

function raise(): never {
  throw new Error('not this one')
}

const DEADLOCK = Object.assign(new Error('deadlock detected'), { code: '40P01' })

function thrownAt(...frames: readonly string[]): Error {
  return Object.assign(new Error('busy'), {
    stack: ['Error: busy', ...frames.map((frame) => `    ${frame}`)].join('\n'),
  })
}

/** What a log was given. */
class Written implements SluiceLog {
  readonly lines: string[] = []

  info(line: string): void {
    this.lines.push(`info ${line}`)
  }

  warn(line: string): void {
    this.lines.push(`warn ${line}`)
  }

  error(line: string): void {
    this.lines.push(`error ${line}`)
  }
}

function linesOf(...events: readonly SluiceEvent[]): readonly string[] {
  const log = new Written()
  const lines = new Lines(log, 'web-1')
  for (const event of events) lines.write(event)
  lines.flush()
  return log.lines
}

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a line about a message names the trace that enqueued it', () => {
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  const [failed, dead] = linesOf({ ...ASKED, traceId }, { ...DEAD, traceId })
  expect(failed).toBe(
    `info sluice: mail: message 7 (welcome), attempt 2, trace ${traceId}, is to be retried, again in 2 s: Error: busy`,
  )
  expect(dead).toBe(
    `error sluice: mail: message 8, attempt 20, trace ${traceId}, went to the dead letters on web-1, gone`,
  )
})

describe('a line', () => {
  const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
  const unreachable = new Error('The database cannot be reached', { cause: refused })
  test.for<readonly [SluiceEvent, string]>([
    [
      { kind: 'request.failed', request: 'POST /queues/mail/claims', status: 503, error: unreachable },
      'error sluice: POST /queues/mail/claims was answered with 503: The database cannot be reached (ECONNREFUSED)',
    ],
    [
      {
        kind: 'inbox.unavailable',
        queue: 'mail',
        receiver: 'nats',
        side: 'receiver',
        cause: 'settings',
        error: 'consumer billing.ack_policy: expected explicit, received "none"',
        since: new Date('2030-01-01T00:00:00Z'),
        retryInMs: 2_000,
      },
      'error sluice: mail: inbox from nats: the broker has been unavailable since 2030-01-01T00:00:00.000Z, now because of a setting, again in 2 s: consumer billing.ack_policy: expected explicit, received "none"',
    ],
    [
      {
        kind: 'relay.unavailable',
        queue: 'mail',
        destination: 'nats',
        cause: 'settings',
        error: 'stream not found',
        since: new Date('2030-01-01T00:00:00Z'),
        retryInMs: 2_000,
      },
      'error sluice: mail: relay to nats: the destination has been unavailable since 2030-01-01T00:00:00.000Z, now because of a setting, again in 2 s: stream not found',
    ],
    [
      {
        kind: 'relay.unavailable',
        queue: 'mail',
        destination: 'nats',
        cause: 'outage',
        error: 'no leader',
        since: new Date('2030-01-01T00:00:00Z'),
        retryInMs: 2_000,
      },
      'warn sluice: mail: relay to nats: the destination has been unavailable since 2030-01-01T00:00:00.000Z, again in 2 s: no leader',
    ],
    [
      {
        kind: 'inbox.unavailable',
        queue: 'mail',
        receiver: 'nats',
        side: 'database',
        cause: 'outage',
        error: 'The database cannot be reached',
        since: new Date('2030-01-01T00:00:00Z'),
        retryInMs: 2_000,
      },
      'warn sluice: mail: inbox from nats: the database has been unavailable since 2030-01-01T00:00:00.000Z, again in 2 s: The database cannot be reached',
    ],
    [
      { kind: 'relay.available', queue: 'mail', destination: 'nats', since: new Date('2030-01-01T00:00:00Z') },
      'info sluice: mail: relay to nats: the destination is available again. It had not been since 2030-01-01T00:00:00.000Z',
    ],
    [
      { ...ASKED, destination: 'nats', error: 'subject "a": no stream matches subject' },
      'warn sluice: mail: message 7 (welcome) to nats, attempt 2, failed on web-1, again in 2 s: subject "a": no stream matches subject',
    ],
    [
      { ...DEAD, destination: 'nats' },
      'error sluice: mail: message 8 to nats, attempt 20, went to the dead letters on web-1, gone',
    ],
    [
      {
        kind: 'partition.stopped',
        queue: 'mail:all',
        destination: 'nats',
        partition: 3,
        position: 17,
        type: null,
        attempt: 1,
        reason: 'too large',
        error: null,
      },
      'error sluice: mail:all: partition 3 stops at event 17 to nats, too large',
    ],
    [
      FAILED,
      'warn sluice: mail: message 7 (welcome), attempt 2, failed on web-1, again in 2 s: Error: busy (at charge (/app/pay.ts:12:5), at two, at three)',
    ],
    [
      {
        ...FAILED,
        cause: thrownAt(
          'at /app/node_modules/pg/lib/client.js:694:17',
          'at process.processTicksAndRejections (node:internal/process/task_queues:104:5)',
          'at async Promise.all (index 0)',
          'at async C:\\app\\node_modules\\kysely\\dist\\executor.js:39:24',
          'at async charge (file:///app/pay.ts:12:5)',
          'at async handle (C:\\app\\main.ts:3:1)',
        ),
      },
      'warn sluice: mail: message 7 (welcome), attempt 2, failed on web-1, again in 2 s: Error: busy (at async charge (file:///app/pay.ts:12:5), at async handle (C:\\app\\main.ts:3:1), at /app/node_modules/pg/lib/client.js:694:17)',
    ],
    [
      { ...FAILED, cause: new Error('wrapped', { cause: DEADLOCK }) },
      expect.stringMatching(
        /attempt 2, failed on .*Error: busy .*\. In transactional mode a batch keeps the row locks/,
      ),
    ],
    [
      { ...ASKED, cause: Object.defineProperty(new Error('odd'), 'code', { get: () => raise() }) },
      expect.stringMatching(/attempt 2, failed on web-1, again in 2 s: Error: busy \(at /),
    ],
    [
      { ...DEAD, error: 'error: deadlock detected', cause: DEADLOCK },
      expect.stringMatching(/went to the dead letters .*: see docs\/guides\/workers\.md#row-locks-and-deadlocks$/),
    ],
    [
      { kind: 'batch.failed', queue: 'mail', messages: 3, error: 'error: deadlock detected', cause: DEADLOCK },
      expect.stringMatching(/a batch of 3 failed, .*: error: deadlock detected\. In transactional mode a batch keeps/),
    ],
    [
      { ...ASKED, error: 'The handler asked for a retry' },
      'info sluice: mail: message 7 (welcome), attempt 2, is to be retried, again in 2 s: The handler asked for a retry',
    ],
    [DEAD, 'error sluice: mail: message 8, attempt 20, went to the dead letters on web-1, gone'],
    [
      { ...DEAD, error: 'E: no' },
      'error sluice: mail: message 8, attempt 20, went to the dead letters on web-1, gone: E: no',
    ],
    [
      { kind: 'batch.released', queue: 'mail', messages: 3, error: unreachable },
      'error sluice: mail: a batch of 3 was rolled back: The database cannot be reached (ECONNREFUSED)',
    ],
    [
      {
        kind: 'batch.released',
        queue: 'mail',
        messages: 3,
        error: new Error('gone: ECONNREFUSED', { cause: refused }),
      },
      'error sluice: mail: a batch of 3 was rolled back: gone: ECONNREFUSED',
    ],
    [
      { kind: 'claim.failed', queue: 'mail', error: unreachable, retryInMs: 250 },
      'warn sluice: mail: a claim failed, again in 250 ms: The database cannot be reached (ECONNREFUSED)',
    ],
    [
      { kind: 'migration.delayed', attempt: 2, attempts: 5, error: unreachable, retryInMs: 45_000 },
      'warn sluice: attempt 2 of 5 to migrate was rolled back, again in 45 s: The database cannot be reached (ECONNREFUSED)',
    ],
    [
      { kind: 'connection.lost', role: 'listener', error: new Error('The connection ended') },
      'warn sluice: the listener connection was lost: The connection ended',
    ],
    [
      { kind: 'message.cancelled', queue: 'mail', id: '7', type: 'welcome', attempt: 2 },
      'info sluice: mail: message 7 (welcome), attempt 2, was cancelled on web-1',
    ],
    [{ kind: 'connection.restored', role: 'control' }, 'info sluice: the control connection is restored'],
    [
      { kind: 'worker.crashed', workerId: 4, worker: 'web-1:7', messages: 3 },
      'warn sluice: worker web-1:7 (4) vanished with 3 messages in flight, which are available again',
    ],
    [
      { kind: 'worker.crashed', workerId: 4, worker: 'web-1:7', messages: 0 },
      'warn sluice: worker web-1:7 (4) vanished',
    ],
    [
      { kind: 'worker.crashed', workerId: 4, worker: 'web-1:7', messages: 1 },
      'warn sluice: worker web-1:7 (4) vanished with 1 message in flight, which is available again',
    ],
    [
      { kind: 'pipeline.started', queue: 'mail', mode: 'leased', concurrency: 200, batchSize: 100 },
      'info sluice: mail: started in leased mode, concurrency 200, batch size 100',
    ],
    [
      {
        kind: 'pipeline.started',
        queue: 'mail',
        destination: 'nats',
        mode: 'transactional',
        concurrency: 2,
        batchSize: 100,
      },
      'info sluice: mail: relay to nats started in transactional mode, concurrency 2, batch size 100',
    ],
    [
      { kind: 'inbox.started', queue: 'mail', receiver: 'nats', batchSize: 100 },
      'info sluice: mail: inbox from nats started, batch size 100',
    ],
  ])('tells of %o', ([event, line]) => {
    expect(linesOf(event)).toEqual([line])
  })

  test('is not written when all is well', () => {
    const well: readonly SluiceEvent[] = [
      { kind: 'worker.started', workerId: 1, name: 'a' },
      { kind: 'batch.claimed', queue: 'mail', messages: 1, oldestDueMs: 1 },
      { kind: 'batch.committed', queue: 'mail', acked: 1, retried: 0, snoozed: 0, dead: 0, durationMs: 1 },
      { kind: 'batch.released', queue: 'mail', messages: 1 },
      { kind: 'pipeline.stopped', queue: 'mail' },
      { kind: 'worker.stopped', workerId: 1, name: 'a' },
    ]
    expect(linesOf(...well)).toEqual([])
  })

  test('is one line, which cannot steer a terminal, whatever the error says', () => {
    const [line = ''] = linesOf({ ...FAILED, error: `Error: a\n  b\u001b[2Jc\u202e${'x'.repeat(5_000)}` })
    expect(line).toContain('Error: a b [2Jc xxx')
    expect(line.length).toBeLessThan(1_100)
  })
})

describe('many failures', () => {
  test('are ten lines in ten seconds for each kind and queue, and then their number', () => {
    const log = new Written()
    const lines = new Lines(log, 'web-1')
    for (let at = 0; at < 1_000; at++) lines.write(FAILED)
    for (let at = 0; at < 12; at++) lines.write({ ...FAILED, queue: 'audit' })
    lines.write(DEAD)
    expect(log.lines).toHaveLength(21)
    log.lines.length = 0
    vi.advanceTimersByTime(10_000)
    expect(log.lines).toEqual([
      'warn sluice: mail: message.failed: 990 more in 10 s, left out',
      'warn sluice: audit: message.failed: 2 more in 10 s, left out',
    ])
    lines.write(FAILED)
    expect(log.lines).toHaveLength(3)
  })

  test('of a broker that is out of reach do not hide that it waits for a setting now', () => {
    const outage = {
      queue: 'mail',
      cause: 'outage',
      error: 'connection refused',
      since: new Date('2030-01-01T00:00:00Z'),
      retryInMs: 10,
    } as const
    const relay = { ...outage, kind: 'relay.unavailable', destination: 'nats' } as const
    const inbox = { ...outage, kind: 'inbox.unavailable', receiver: 'nats', side: 'database' } as const
    const settings = { cause: 'settings', error: 'no permission' } as const
    const lines = linesOf(
      ...Array.from({ length: 12 }, () => [relay, inbox]).flat(),
      { ...relay, ...settings },
      { ...inbox, ...settings, side: 'receiver' },
    )
    expect(lines.filter((line) => line.startsWith('error'))).toEqual([
      expect.stringMatching(/relay to nats: .*, now because of a setting, again in 10 ms: no permission$/),
      expect.stringMatching(/inbox from nats: the broker .*, now because of a setting, /),
    ])
    expect(lines.slice(-2)).toEqual([
      'warn sluice: mail: relay.unavailable (nats, outage): 2 more in 10 s, left out',
      'warn sluice: mail: inbox.unavailable (database, outage): 2 more in 10 s, left out',
    ])
  })

  test('say at the end how many were left out', () => {
    expect(linesOf(...Array.from({ length: 11 }, () => FAILED)).at(-1)).toContain('1 more')
  })
})

test('a log that throws disturbs nobody', () => {
  const fail = () => {
    throw new Error('The disk is full')
  }
  const lines = new Lines({ info: fail, warn: fail, error: fail }, 'web-1')
  expect(() => lines.write(FAILED)).not.toThrow()
})
