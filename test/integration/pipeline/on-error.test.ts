import { describe, expect } from 'vitest'
import { unlockedPayloads } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

describe.for(['transactional', 'leased'] as const)('onError of a pipeline in %s mode', (mode) => {
  // Both modes have these options.
  const options = {
    mode: mode as 'transactional',
    concurrency: 1,
    batchSize: 1,
    retry: { kind: 'fixed', delay: '1h' },
  } as const
  const failAt = (wrong: number) => (message: { readonly payload: unknown }) =>
    message.payload === wrong ? raise(new Error(`${wrong} is wrong`)) : undefined

  test('stops it: nothing more is claimed, the failure is written, and its end says why', async ({
    sluice,
    queue,
    log,
    database,
  }) => {
    await put(sluice, queue, [1, 2, 3, 4])
    const heard: unknown[] = []
    const running = sluice
      .pipeline(queue, {
        ...options,
        onError: (error, { payload }) => {
          heard.push([(error as Error).message, payload])
          return 'stop'
        },
      })
      .handle(failAt(2))
      .start()
    await running.ended
    expect(heard).toEqual([['2 is wrong', 2]])
    expect(log.of('pipeline.stopped')).toMatchObject([{ queue, by: 'onError', error: { message: '2 is wrong' } }])
    expect(
      await database.sql(`SELECT payload, attempt FROM sluice.message WHERE queue = '${queue}' ORDER BY id`),
    ).toEqual([
      { payload: 2, attempt: 1 },
      { payload: 3, attempt: 0 },
      { payload: 4, attempt: 0 },
    ])
  })

  test('pauses it until it is resumed', async ({ sluice, queue, log, database }) => {
    await put(sluice, queue, [1, 2, 3])
    const running = sluice
      .pipeline(queue, { ...options, onError: () => 'pause' })
      .handle(failAt(1))
      .start()
    await log.first('message.failed')
    expect(running.paused).toBe(true)
    await waitFor(async () => (await unlockedPayloads(database, queue)).length === 3, { what: 'all to be free' })
    expect(running.statistics()).toMatchObject({ acked: 0, retried: 1 })
    running.resume()
    await waitFor(() => running.statistics().acked === 2, { what: 'the other messages' })
  })

  test('lets it go on, also if it throws or answers something else, which is reported', async ({
    sluice,
    queue,
    log,
  }) => {
    await put(sluice, queue, [1, 2, 3])
    const answers = [() => 'continue', () => raise(new Error('no idea')), () => Promise.reject(new Error('late'))]
    const running = sluice
      .pipeline(queue, { ...options, onError: () => answers.shift()?.() as 'continue' })
      .handle(() => raise())
      .start()
    await waitFor(() => running.statistics().retried === 3, { what: 'three failures' })
    expect(log.of('onError.failed').map(({ error }) => error.message)).toEqual([
      'no idea',
      expect.stringContaining("onError: expected 'continue', 'pause' or 'stop'"),
    ])
    expect(log.of('pipeline.stopped')).toEqual([])
  })

  test('hears of a handler that is late, and not of a retry that it asks for', async ({ sluice, queue, log }) => {
    await put(sluice, queue, ['slow'])
    const heard: unknown[] = []
    sluice
      .pipeline(queue, {
        ...options,
        timeout: '30ms',
        onError: (error) => {
          heard.push(error)
          return 'continue'
        },
      })
      .handle(() => new Promise(() => undefined))
      .start()
    await log.first('message.failed')
    expect(heard).toMatchObject([{ code: 'HANDLER_TIMEOUT' }])
  })

  test('ends a runOnce with what is in hand', async ({ sluice, queue }) => {
    await put(sluice, queue, [1, 2, 3])
    const pipeline = sluice.pipeline(queue, { ...options, onError: () => 'stop' }).handle(failAt(1))
    const { counts } = await pipeline.runOnce()
    expect(counts).toMatchObject({ acked: 0, retried: 1 })
  })

  test('is a function', ({ sluice, queue }) => {
    expect(() => sluice.pipeline(queue, { ...options, onError: 'stop' as never })).toThrow(
      /onError: expected a function/,
    )
  })
})
