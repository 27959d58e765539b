import { describe, expect } from 'vitest'
import { deadLetter } from '../../../src/message.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const AT_ONCE = { kind: 'fixed', delay: 0 } as const

const fail = (text: string): never => {
  throw new Error(text)
}

describe.each(['transactional', 'leased'] as const)('in %s mode', (mode) => {
  test('a message keeps its last five failures, each with its attempt, time, error and worker, and the last stack', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database, { name: 'web-1' })
    const [id = ''] = await put(sluice, queue, [1])
    const options = { mode, retry: AT_ONCE, maxAttempts: 7 }
    const pipeline = sluice
      .pipeline(queue, options as { mode: 'leased' })
      .handle(({ attempt }) => fail(`no ${attempt}`))
    const tryAgain = async () => {
      await pipeline.runOnce()
      return sluice.operate.deadLetters.get(queue, id)
    }
    const letter = await waitFor(tryAgain, { what: 'the message to die' })
    expect(letter).toMatchObject({ error: 'Error: no 7', attempt: 7 })
    const { failures } = letter
    expect(failures.map(({ attempt, error, worker }) => [attempt, error, worker])).toEqual(
      [3, 4, 5, 6, 7].map((attempt) => [attempt, `Error: no ${attempt}`, 'web-1']),
    )
    expect(failures.map(({ stack }) => stack?.includes('failures.test.ts') ?? null)).toEqual([
      ...[null, null, null, null],
      true,
    ])
    const times = failures.map(({ at }) => at.getTime())
    expect(times).toEqual(times.toSorted((a, b) => a - b))
    expect(times.at(-1)).toBeLessThanOrEqual(letter.diedAt.getTime())
  })

  test('a dead letter has the error of its last try, and not that of one before', async ({ database, queue }) => {
    const sluice = startTestSluice(database)
    const [id = ''] = await put(sluice, queue, [1])
    const pipeline = sluice
      .pipeline(queue, { mode, retry: AT_ONCE } as { mode: 'leased' })
      .handle(({ attempt }) => (attempt === 1 ? fail('503') : deadLetter('card expired')))
    const tryAgain = async () => {
      await pipeline.runOnce()
      return sluice.operate.deadLetters.get(queue, id)
    }
    expect(await waitFor(tryAgain, { what: 'the message to die' })).toMatchObject({
      reason: 'card expired',
      error: null,
      failures: [{ error: 'Error: 503' }, { error: 'card expired' }],
    })
  })

  test('a message that waits for its next try shows why, and one that a handler gave up shows which worker did', async ({
    database,
    queue,
  }) => {
    const sluice = startTestSluice(database, { name: 'web-2' })
    const [waiting = '', dead = ''] = await put(sluice, queue, ['fails', 'dies'])
    await sluice
      .pipeline(queue, { mode, retry: { kind: 'fixed', delay: '1h' } } as { mode: 'leased' })
      .handle(({ payload }) => (payload === 'dies' ? deadLetter('no such customer') : fail('busy')))
      .runOnce()
    expect(await sluice.operate.messages.get(queue, waiting)).toMatchObject({
      lastError: 'Error: busy',
      failures: [{ attempt: 1, error: 'Error: busy', worker: 'web-2', stack: expect.stringContaining('at ') }],
    })
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const shown = (await cli('message', 'status', queue, waiting)).stdout
    expect(shown).toMatch(/^failed attempts +1$/m)
    expect(shown).toMatch(
      /\n\nlast error\n {2}Error: busy\n\nfailures\n {2}20\S+Z {2}attempt 1 on web-2: Error: busy\n {6}at /,
    )
    expect((await cli('message', 'status', queue, dead)).stdout).toContain(`sluice dead get ${queue} ${dead}\n`)
    expect(await sluice.operate.deadLetters.get(queue, dead)).toMatchObject({
      error: null,
      failures: [{ attempt: 1, error: 'no such customer', worker: 'web-2', stack: null }],
    })
  })
})

test('a redriven message keeps the failures of its earlier life', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  const [id = ''] = await put(sluice, queue, [1], { maxAttempts: 1 })
  const pipeline = sluice.pipeline(queue).handle(() => fail('no'))
  await pipeline.runOnce()
  await sluice.operate.deadLetters.redrive({ queue, error: 'ERROR: NO' })
  expect(await sluice.operate.messages.get(queue, id)).toMatchObject({ attempt: 0, failures: [{ attempt: 1 }] })
  await pipeline.runOnce()
  expect(await sluice.operate.deadLetters.get(queue, id)).toMatchObject({ failures: [{ attempt: 1 }, { attempt: 1 }] })
})

test('a client of a claim leaves its error, without a worker', async ({ database, queue }) => {
  const sluice = startTestSluice(database)
  const [id = ''] = await put(sluice, queue, [1], { maxAttempts: 2 })
  for (const error of ['first', 'second']) {
    const claim = await sluice.claim(queue)
    await claim?.settle([id], { kind: 'retryLater', afterMs: 0, error })
  }
  expect(await sluice.operate.deadLetters.get(queue, id)).toMatchObject({
    failures: [
      { attempt: 1, error: 'first', worker: null },
      { attempt: 2, error: 'second', worker: null },
    ],
  })
})

test('a failed event of a group keeps its failures in the group’s queue', async ({ database, queue }) => {
  const sluice = startTestSluice(database, { name: 'web-3' })
  await sluice.streams.set(queue)
  await sluice.groups.set(queue, 'all', { from: 'start' })
  await sluice.append(sluice.ownTransaction, queue, 1)
  const pipeline = sluice.pipeline(queue, { group: 'all', retry: AT_ONCE, maxAttempts: 2 }).handle(() => fail('no'))
  const letter = await waitFor(
    async () => {
      await pipeline.runOnce()
      return (await sluice.operate.deadLetters.list({ queue: `${queue}:all` })).deadLetters[0]
    },
    { what: 'the event to die' },
  )
  expect(letter.failures).toMatchObject([
    { attempt: 1, worker: 'web-3' },
    { attempt: 2, worker: 'web-3', stack: expect.any(String) },
  ])
})

test('one that has expired after a failure has its error', async ({ database, sluice, queue }) => {
  await sluice.operate.queues.settings.set(queue, { onExpiry: 'deadLetter' })
  const [id = ''] = await put(sluice, queue, [1], { ttl: '1h' })
  await sluice
    .pipeline(queue, { retry: { kind: 'fixed', delay: '1m' } })
    .handle(() => fail('503'))
    .runOnce()
  await database.sql(
    `UPDATE sluice.message SET due_at = clock_timestamp() - interval '2 s', expires_at = clock_timestamp() - interval '1 s' WHERE id = $1`,
    [id],
  )
  expect(await sluice.pop(queue)).toEqual([])
  expect(await sluice.operate.deadLetters.get(queue, id)).toMatchObject({ reason: 'expired', error: 'Error: 503' })
})
