import { inspect } from 'node:util'
import { describe, expect } from 'vitest'
import { ack, deadLetter, type Outcome, retryLater, snooze } from '../../../src/message.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

const AT_ONCE = { retry: { kind: 'fixed', delay: 0 } } as const
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

const STATE =
  'SELECT id, state, attempt, last_error, due_at, failed_at FROM sluice.messages WHERE queue = $1 ORDER BY id'
const DEAD = 'SELECT id, reason, error, attempt FROM sluice.dead_letters WHERE queue = $1 ORDER BY id'

describe('an outcome', () => {
  test('of nothing, or ack(), removes the message', async ({ database, sluice, queue, log }) => {
    sluice
      .pipeline(queue)
      .handle(({ payload }) => (payload === 1 ? ack() : undefined))
      .subscribe()
    await put(sluice, queue, [1, 2])
    await untilEmpty(database, queue)
    expect(await log.first('batch.committed')).toMatchObject({ queue, acked: 2, retried: 0, snoozed: 0, dead: 0 })
    expect(await database.sql(DEAD, [queue])).toEqual([])
  })

  test('of retryLater() keeps the row, counts the attempt, and says when and why', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h', error: new Error('the bank is closed') }))
      .subscribe()
    const [id] = await put(sluice, queue, [1])
    await log.first('batch.committed', ({ retried }) => retried === 1)
    const retrying = async () => (await database.sql(STATE, [queue])).find(({ state }) => state === 'retrying')
    const row = await waitFor(retrying, { what: 'the message to be out of hand' })
    expect(row).toMatchObject({ id, attempt: 1, last_error: 'Error: the bank is closed' })
    // Both are estimates from the claim: the due time a little late, the time of the failure a little early.
    const waitMs = row.due_at.getTime() - row.failed_at.getTime()
    expect(Math.abs(waitMs - 3_600_000)).toBeLessThan(60_000)
    expect(log.of('message.failed')).toEqual([
      {
        kind: 'message.failed',
        queue,
        id,
        type: null,
        attempt: 1,
        error: 'Error: the bank is closed',
        retryInMs: 3_600_000,
      },
    ])
  })

  test('of retryLater() without a time leaves that to the policy', async ({ sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(() => retryLater())
      .subscribe()
    await put(sluice, queue, [1])
    expect(await log.first('message.failed')).toMatchObject({ retryInMs: 3_600_000, attempt: 1 })
  })

  test('of snooze() delivers again later, with what was written, and without counting an attempt', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    const [id] = await put(sluice, queue, [1])
    await database.sql('CREATE TABLE snoozed (id text)')
    const first = await steps.next()
    await first.context.tx.query('INSERT INTO snoozed VALUES ($1)', [first.message.id])
    first.end(snooze({ after: 150 }))
    expect(await log.first('batch.committed')).toMatchObject({ acked: 0, retried: 0, snoozed: 1 })
    expect(await database.sql('SELECT id FROM snoozed')).toEqual([{ id }])
    const second = await steps.next()
    expect(second.at.getTime() - first.at.getTime()).toBeGreaterThanOrEqual(150)
    expect([first, second].map(({ message, context }) => [message.id, message.attempt, context.attempt])).toEqual([
      [id, 1, 1],
      [id, 1, 1],
    ])
    expect(await database.sql(STATE, [queue])).toMatchObject([{ attempt: 0, last_error: null, failed_at: null }])
    second.end()
  })

  test('of deadLetter() moves the message with its reason, error and attempt', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const steps = new Steps()
    sluice.pipeline(queue, AT_ONCE).handle(steps.handle).subscribe()
    const [id] = await put(sluice, queue, [{ n: 1 }], { headers: { trace: 'a' }, type: 'test.one', priority: 3 })
    await steps.endNext(retryLater())
    await steps.endNext(deadLetter('no such customer', new Error('404')))
    await untilEmpty(database, queue)
    expect(await database.sql('SELECT * FROM sluice.dead_letters WHERE queue = $1', [queue])).toMatchObject([
      {
        id,
        reason: 'no such customer',
        error: 'Error: 404',
        attempt: 2,
        payload: { n: 1 },
        headers: { trace: 'a' },
        type: 'test.one',
        priority: 3,
      },
    ])
    const event = { queue, id, type: 'test.one', attempt: 2, reason: 'no such customer', error: 'Error: 404' }
    expect(log.of('message.dead')).toEqual([{ kind: 'message.dead', ...event }])
  })

  test('that is none fails its message alone', async ({ database, sluice, queue, log }) => {
    const garbage: unknown[] = [
      'done',
      { kind: 'done' },
      { kind: 'snooze' },
      { kind: 'retryLater', afterMs: Number.NaN },
      { kind: 'retryLater', afterMs: 1e300 },
      { kind: 'deadLetter' },
      [ack()],
    ]
    sluice
      .pipeline(queue, { ...LATER, batchSize: 100 })
      .handle(({ payload }) => garbage[Number(payload)] as Outcome)
      .subscribe()
    await put(sluice, queue, [...garbage.keys(), garbage.length])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 1, retried: garbage.length })
    const rows = await database.sql<{ last_error: string }>(STATE, [queue])
    expect(rows.map(({ last_error }) => last_error)).toEqual(garbage.map(() => expect.stringMatching(/^SluiceError: /)))
  })

  test('may hold any text', async ({ database, sluice, queue }) => {
    const odd = 'NUL \0, lone \ud800 surrogate, \u{1F600}'
    const outcomes = [deadLetter(odd, odd), { kind: 'deadLetter', reason: odd, error: odd }] as const
    sluice
      .pipeline(queue)
      .handle(({ payload }) => outcomes[Number(payload)])
      .subscribe()
    await put(sluice, queue, [0, 1, 2])
    await untilEmpty(database, queue)
    const kept = 'NUL \uFFFD, lone \uFFFD surrogate, \u{1F600}'
    expect(await database.sql('SELECT reason, error FROM sluice.dead_letters WHERE queue = $1', [queue])).toEqual([
      { reason: kept, error: kept },
      { reason: kept, error: kept },
    ])
  })
})

describe('a handler that throws', () => {
  test('is tried again as the policy says of the attempt and the error', async ({ database, sluice, queue, log }) => {
    const asked: unknown[][] = []
    const policy = (attempt: number, error: unknown) => {
      asked.push([attempt, error])
      return attempt === 1 ? 0 : ('1h' as const)
    }
    const errors = [new Error('first', { cause: new TypeError('deeper') }), 'a string']
    sluice
      .pipeline(queue, { retry: policy })
      .handle(({ attempt }) => raise(errors[attempt - 1]))
      .subscribe()
    await put(sluice, queue, [1])
    await log.first('message.failed', ({ attempt }) => attempt === 2)
    expect(asked).toEqual([
      [1, errors[0]],
      [2, errors[1]],
    ])
    expect(log.of('message.failed').map(({ error, retryInMs }) => [error, retryInMs])).toEqual([
      ['Error: first — caused by TypeError: deeper', 0],
      ['a string', 3_600_000],
    ])
    expect(await database.sql(STATE, [queue])).toMatchObject([{ attempt: 2, last_error: 'a string' }])
  })

  test('is reported with what it threw and its stack, which a logged event does not show', async ({
    sluice,
    queue,
    log,
  }) => {
    const thrown = new RangeError('too far')
    sluice
      .pipeline(queue, { maxAttempts: 2, retry: { kind: 'fixed', delay: 0.6 } })
      .handle(() => raise(thrown))
      .subscribe()
    await put(sluice, queue, [1])
    const dead = await log.first('message.dead')
    const [failed] = log.of('message.failed')
    expect(failed?.cause).toBe(thrown)
    expect(dead.cause).toBe(thrown)
    expect(Object.keys({ ...failed, ...dead })).not.toContain('cause')
    expect(inspect([failed, dead])).not.toContain('handler.test.ts')
    expect(failed?.retryInMs).toBe(1)
  })

  test('does so apart from its batch: what the others wrote is committed, what it wrote is not', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await database.sql('CREATE TABLE siblings (n integer)')
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        await tx.query('INSERT INTO siblings VALUES ($1)', [payload])
        if (payload === 3 || payload === 10) throw new Error('failed on purpose')
      })
      .subscribe()
    await put(sluice, queue, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 8, retried: 2 })
    const rows = await database.sql<{ n: number }>('SELECT n FROM siblings ORDER BY n')
    expect(rows.map(({ n }) => n)).toEqual([1, 2, 4, 5, 6, 7, 8, 9])
    expect(log.of('batch.claimed')).toHaveLength(1)
  })

  test.for([
    ['of the pipeline', {}, 2],
    ['of the message, which goes before', { maxAttempts: 3 }, 3],
  ] as const)(
    'sends its message to the dead letters after the limit of attempts %s',
    async ([, options, most], { database, sluice, queue }) => {
      const attempts: number[] = []
      sluice
        .pipeline(queue, { ...AT_ONCE, maxAttempts: 2 })
        .handle(({ attempt, maxAttempts }) => {
          expect(maxAttempts).toBe('maxAttempts' in options ? options.maxAttempts : null)
          attempts.push(attempt)
          throw new Error(`failure ${attempt}`)
        })
        .subscribe()
      const [id] = await put(sluice, queue, [1], options)
      await untilEmpty(database, queue)
      expect(attempts).toEqual(Array.from({ length: most }, (_, at) => at + 1))
      expect(await database.sql(DEAD, [queue])).toEqual([
        { id, reason: `failed ${most} of ${most} attempts`, error: `Error: failure ${most}`, attempt: most },
      ])
    },
  )
})
