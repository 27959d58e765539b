import { describe, expect } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import type { QueueSettingsInput } from '../../../src/queue-settings.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

/** Only a notification can be in time: the poll is a minute away. */
const test = base.extend('sluice', ({ database }) =>
  startTestSluice(database, { pollInterval: NO_POLL, retryPolicies: POLICIES }),
)

const POLICIES = {
  gentle: { kind: 'fixed', delay: '7h' },
  steep: { kind: 'exponential', delay: '1h', factor: 10, maxDelay: '50h', jitter: 0 },
  own: (attempt: number) => attempt * 3_600_000,
} as const

const ALL: Required<QueueSettingsInput> = {
  delay: '5s',
  ttl: '7d',
  onExpiry: 'deadLetter',
  maxAttempts: 5,
  retry: { kind: 'exponential', delay: '10s', maxDelay: '1h', factor: 3, jitter: 0.5 },
  payloadLimitBytes: 100,
  history: '2d',
  deadLetterRetention: '30d',
  rate: { limit: 100, per: '1m', burst: 10 },
  tenantRate: { limit: 5 },
  concurrency: 8,
  tenantConcurrency: 2,
}

describe('settings', () => {
  test('are told, kept, read and unset, each by itself, with who and when', async ({ database, sluice, queue }) => {
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
    await sluice.operate.queues.settings.set(queue, ALL, { by: 'ada' })
    const told = await sluice.operate.queues.settings.get(queue)
    expect(told).toEqual({
      queue,
      pausedAt: null,
      pausedBy: null,
      pauseReason: null,
      delayMs: 5_000,
      ttlMs: 604_800_000,
      onExpiry: 'deadLetter',
      maxAttempts: 5,
      retry: { kind: 'exponential', delay: 10_000, maxDelay: 3_600_000, factor: 3, jitter: 0.5 },
      payloadLimitBytes: 100,
      historyMs: 172_800_000,
      deadLetterRetentionMs: 2_592_000_000,
      rate: { limit: 100, perMs: 60_000, burst: 10 },
      tenantRate: { limit: 5, perMs: 1_000, burst: null },
      concurrency: 8,
      tenantConcurrency: 2,
      changedAt: expect.any(Date),
      changedBy: 'ada',
    })
    await sluice.operate.queues.pause(queue)
    await sluice.operate.queues.settings.set(queue, { ttl: null, maxAttempts: 6 })
    expect(await sluice.operate.queues.settings.list({ queue })).toMatchObject([
      { ttlMs: null, maxAttempts: 6, delayMs: 5_000, changedBy: expect.stringMatching(/./) },
    ])
    await sluice.operate.queues.settings.unset(queue)
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({
      maxAttempts: null,
      pausedAt: expect.any(Date),
    })
    await sluice.operate.queues.resume(queue)
    expect(await database.sql('SELECT FROM sluice.queue WHERE queue = $1', [queue])).toEqual([])
  })

  const WRONG: readonly (readonly [string, unknown])[] = [
    ['delay', '-1s'],
    ['ttl', 0],
    ['ttl', 'soon'],
    ['onExpiry', 'dead_letter'],
    ['maxAttempts', 0],
    ['maxAttempts', 1.5],
    ['retry', { kind: 'fixed' }],
    ['retry', { kind: 'exponential', factor: 0.5 }],
    ['retry', () => 5],
    ['retry', ''],
    ['payloadLimitBytes', 268_435_457],
    ['history', '0ms'],
    ['deadLetterRetention', -5],
    ['rate', 5],
    ['rate', { limit: 0 }],
    ['rate', { limit: 5, every: '1s' }],
    ['tenantRate', { limit: 5, per: '0s' }],
    ['rate', { limit: null }],
    ['rate', { limit: 5, per: null }],
    ['tenantRate', { limit: 5, burst: null }],
    ['retry', { kind: 'exponential', maxDelay: null }],
    ['concurrency', 10_001],
    ['maxattempts', 5],
  ]

  test('that are not allowed are refused in TypeScript and in SQL, and nothing is written', async ({
    database,
    sluice,
    queue,
  }) => {
    for (const [name, value] of WRONG) {
      const input = { maxAttempts: 3, [name]: value }
      await expect(sluice.operate.queues.settings.set(queue, input as object), name).rejects.toMatchObject({
        code: 'OPTION_INVALID',
        message: expect.stringContaining('settings.set'),
      })
    }
    for (const [name, value] of WRONG.filter(([, wrong]) => typeof wrong !== 'function')) {
      const given = { [name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)]: value }
      const set = database.sql('SELECT sluice.queue_set($1, $2)', [queue, JSON.stringify(given)])
      if (value === 'dead_letter') await set
      else await expect(set, JSON.stringify(given)).rejects.toMatchObject({ code: '22023' })
    }
    await expect(database.sql(`SELECT sluice.queue_set('no good', '{"ttl": "1d"}')`)).rejects.toMatchObject({
      code: '23514',
    })
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({ onExpiry: 'deadLetter', maxAttempts: null })
    await expect(sluice.operate.queues.settings.set(queue, {})).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(sluice.operate.queues.pause(queue, { why: 'x' } as object)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
    })
  })

  test('told by many at once are all there', async ({ sluice, queue }) => {
    const names = ['delay', 'ttl', 'maxAttempts', 'payloadLimitBytes', 'concurrency', 'history'] as const
    await Promise.all(names.map((name) => sluice.operate.queues.settings.set(queue, { [name]: ALL[name] })))
    expect(await sluice.operate.queues.settings.get(queue)).toMatchObject({
      delayMs: 5_000,
      maxAttempts: 5,
      concurrency: 8,
    })
    await Promise.all(names.map((name) => sluice.operate.queues.settings.unset(queue, [name])))
    expect(await sluice.operate.queues.settings.get(queue)).toBeUndefined()
  })

  test('of enqueueing are in force with their commit: delay, life and size', async ({ database, sluice, queue }) => {
    await sluice.operate.queues.settings.set(queue, { delay: '1h', ttl: '2h', payloadLimitBytes: 10 })
    await put(sluice, queue, [1, 2])
    await sluice.enqueue(sluice.ownTransaction, queue, 3)
    await sluice.enqueue(sluice.ownTransaction, queue, 4, { delay: 0, ttl: '1h' })
    const waits = `SELECT round(extract(epoch FROM due_at - enqueued_at) / 3600)::integer AS due,
      round(extract(epoch FROM expires_at - due_at) / 3600)::integer AS life FROM sluice.message WHERE queue = $1 ORDER BY id`
    const told = { due: 1, life: 2 }
    expect(await database.sql(waits, [queue])).toEqual([told, told, told, { due: 0, life: 1 }])
    const large = 'larger than ten'
    for (const refused of [sluice.enqueue(sluice.ownTransaction, queue, large), put(sluice, queue, [1, large])]) {
      await expect(refused).rejects.toMatchObject({
        code: 'PAYLOAD_TOO_LARGE',
        message: expect.stringContaining('at most 10 bytes of JSON in this queue, received 17'),
      })
    }
  })
})

describe('sluice queue', () => {
  test('sets, gets, pauses, resumes and unsets, and sluice status names it', async ({ database, queue }) => {
    const sluice = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const stdout = async (...args: string[]) => {
      const { code, stdout: text, stderr } = await sluice(...args)
      // The queue has neither messages nor workers.
      expect({ code, stderr: stderr.replace(/^No queue has this name\..*\n/, '') }).toEqual({ code: 0, stderr: '' })
      return text.trim()
    }
    const set = [
      '--ttl',
      '7d',
      '--max-attempts',
      '5',
      '--rate',
      '100/1m/10',
      '--retry',
      '{"kind":"fixed","delay":"30s"}',
    ]
    const told = 'ttl 7d, max-attempts 5, retry {"kind":"fixed","delay":30000}, rate 100/1m/10'
    expect(await stdout('queue', 'set', queue, ...set, '--by', 'ada', '--yes')).toBe(`Queue ${queue}: ${told}`)
    expect(await stdout('queue', 'pause', queue, '--by', 'bob', '--reason', 'a test')).toBe(`Paused ${queue}.`)
    expect(await stdout('queue', 'pause', queue)).toMatch(/was paused already, .* by bob: a test\.$/)
    expect(await stdout('queue', 'get', queue)).toMatch(/^paused +.* ago by .*\nttl +7d\nmax-attempts +5\n/)
    expect(await stdout('queue', 'list')).toContain(told)
    const status = await stdout('status')
    expect(status).toContain(told)
    expect(status).toContain(`${queue}: paused`)
    expect(await stdout('queue', 'resume', queue)).toBe(`Resumed ${queue}.`)
    expect(await stdout('queue', 'unset', queue, 'max-attempts')).toBe(`Unset max-attempts of ${queue}.`)
    expect(JSON.parse(await stdout('queue', 'get', queue, '--json'))).toMatchObject({
      maxAttempts: null,
      ttlMs: 604_800_000,
    })
    await stdout('queue', 'unset', queue)
    expect(await stdout('queue', 'get', queue, '--json')).toBe('null')
    for (const wrong of [
      ['set', queue],
      ['set', queue, '--rate', 'fast'],
      ['set', queue, '--retry', '{'],
      ['unset', queue, 'x'],
    ])
      expect(await sluice('queue', ...wrong)).toMatchObject({ code: 2, stdout: '' })
  })
})

const MODES = [{ mode: 'transactional' }, { mode: 'leased' }] as const

describe.for(MODES)('the limit of attempts and the retry of a queue, for a pipeline in mode $mode,', ({ mode }) => {
  const pipeline = (sluice: ReturnType<typeof startTestSluice>, queue: string) =>
    sluice.pipeline(queue, { mode: mode as 'leased', retry: { kind: 'fixed', delay: '1h' }, maxAttempts: 10 })

  test('are changed while it runs: the message first, then the queue, then the code', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    pipeline(sluice, queue)
      .handle(() => raise())
      .start()
    await raisedFlag(database, queue)
    await put(sluice, queue, ['code'])
    expect(await log.first('message.failed')).toMatchObject({ retryInMs: 3_600_000 })
    await sluice.operate.queues.settings.set(queue, { maxAttempts: 2, retry: { kind: 'fixed', delay: '2h' } })
    await known(sluice, database, queue)
    await put(sluice, queue, ['queue'])
    expect(await log.first('message.failed', ({ retryInMs }) => retryInMs !== 3_600_000)).toMatchObject({
      retryInMs: 7_200_000,
    })
    await put(sluice, queue, ['message'], { maxAttempts: 1 })
    await log.first('message.dead', ({ reason }) => reason === 'failed 1 of 1 attempts')
    // Both are at their second attempt, which is the last one that the queue allows.
    await database.sql(`UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1`, [queue])
    await database.sql(`SELECT pg_notify('sluice', $1)`, [queue])
    await waitFor(() => log.of('message.dead').length === 3, { what: 'all to be dead' })
    expect(log.of('message.dead').map(({ reason }) => reason)).toEqual([
      'failed 1 of 1 attempts',
      'failed 2 of 2 attempts',
      'failed 2 of 2 attempts',
    ])
  })

  test('by name: of the message, of the queue, of the pipeline, and a name that is unknown is reported', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await put(sluice, queue, ['by message'], { retryPolicy: 'gentle' })
    await put(sluice, queue, ['by function'], { retryPolicy: 'own' })
    await put(sluice, queue, ['by queue'])
    await put(startTestSluice(database), queue, ['unknown'], { retryPolicy: 'harsh' })
    await sluice.operate.queues.settings.set(queue, { retry: 'steep' })
    const { counts } = await pipeline(sluice, queue)
      .handle(() => raise())
      .runOnce()
    expect(counts).toMatchObject({ retried: 4 })
    const waits = log.of('message.failed').map(({ retryInMs }) => retryInMs / 3_600_000)
    expect(waits.toSorted((a, b) => a - b)).toEqual([1, 1, 1, 7])
    expect(log.of('retryPolicy.unknown')).toMatchObject([{ queue, name: 'harsh' }])
    expect(log.of('retryPolicy.failed')).toEqual([])
  })
})

describe('a claim', () => {
  test('goes by the limit of attempts and the retry of its queue, and by policies by name', async ({
    database,
    sluice,
    queue,
  }) => {
    const [a, b, c] = await put(sluice, queue, ['queue', 'queue', 'queue'])
    const [d] = await put(sluice, queue, ['message'], { retryPolicy: 'gentle' })
    await database.sql('UPDATE sluice.message SET attempt = 2 WHERE id = $1', [b])
    await database.sql('UPDATE sluice.message SET attempt = 4 WHERE id = $1', [c])
    const claim = await sluice.claim(queue)
    await sluice.operate.queues.settings.set(queue, { maxAttempts: 5, retry: 'steep' })
    await claim?.settle(claim.messages, retryLater())
    const due = `SELECT id, round(extract(epoch FROM due_at - failed_at) / 3600)::integer AS hours
      FROM sluice.message WHERE queue = $1 ORDER BY id`
    expect(await database.sql(due, [queue])).toEqual([
      { id: a, hours: 1 },
      { id: b, hours: 50 },
      { id: d, hours: 7 },
    ])
    expect((await sluice.operate.deadLetters.list({ queue })).deadLetters).toMatchObject([
      { id: c, reason: 'failed 5 of 5 attempts' },
    ])
  })
})

describe('a name of a retry policy', () => {
  test('that this Sluice does not have is refused on enqueueing, if it has any', async ({
    database,
    sluice,
    queue,
  }) => {
    const enqueue = (of: typeof sluice) => of.enqueue(of.ownTransaction, queue, 1, { retryPolicy: 'harsh' })
    await expect(enqueue(sluice)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringContaining('options.retryPolicy: expected a name in retryPolicies (gentle, steep, own)'),
    })
    await enqueue(startTestSluice(database) as typeof sluice)
  })
})

describe("a message's own lease", () => {
  test('is that of its claim, its renewals and extend(), while others have the one of the pipeline', async ({
    database,
    sluice,
    queue,
  }) => {
    const ends: number[] = []
    const go = Promise.withResolvers<void>()
    const pipeline = sluice.pipeline(queue, { mode: 'leased', lease: '1h', concurrency: 2, batchSize: 2 })
    const [short] = await put(sluice, queue, ['short'], { lease: '1s' })
    await put(sluice, queue, ['other'])
    const lasts = async () => {
      const rows = await database.sql<{ id: string; seconds: number }>(
        'SELECT id, extract(epoch FROM due_at - clock_timestamp())::double precision AS seconds FROM sluice.message WHERE queue = $1',
        [queue],
      )
      return new Map(rows.map(({ id, seconds }) => [id === short ? 'short' : 'other', seconds]))
    }
    const running = pipeline
      .handle(async ({ id }, { leaseUntil, extend }) => {
        if (id === short) ends.push(leaseUntil.getTime() - Date.now())
        await go.promise
        if (id === short) await extend()
        if (id === short) ends.push((await lasts()).get('short') ?? 0)
      })
      .start()
    await waitFor(() => ends.length > 0, { what: 'the handler' })
    expect(ends[0]).toBeLessThanOrEqual(1_000)
    const first = await lasts()
    expect(first.get('other')).toBeGreaterThan(3_000)
    // It would have run out, and be handled twice, if it were renewed as seldom as the other one.
    const dueAt = async () =>
      (await database.sql('SELECT due_at FROM sluice.message WHERE id = $1', [short]))[0]?.due_at
    const before: Date = await dueAt()
    await waitFor(async () => (await dueAt()).getTime() > before.getTime() + 1_000, { what: 'the second renewal' })
    go.resolve()
    await untilEmpty(database, queue)
    expect(ends).toHaveLength(2)
    expect(ends[1]).toBeLessThanOrEqual(1)
    await running.drain()
  })
})

/** Resolves when the Sluice has heard of the settings of its queue. */
async function known(sluice: ReturnType<typeof startTestSluice>, database: TestDatabase, queue: string): Promise<void> {
  // It reads settings in the order in which they were told: of a pause it tells.
  let heard = false
  const subscription = sluice.events.subscribe((event) => {
    heard ||= event.kind === 'pipeline.paused' && event.queue === queue
  })
  await database.sql('SELECT sluice.pause($1)', [queue])
  await waitFor(() => heard, { what: 'the pause' })
  subscription.unsubscribe()
  await database.sql('SELECT sluice.resume($1)', [queue])
}
