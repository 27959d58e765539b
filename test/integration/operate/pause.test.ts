import { describe, expect } from 'vitest'
import { recordStatements } from '../../support/plans/statements.ts'
import { sleepOn } from '../../support/processes/sleeper.ts'
import { loweredFlag, NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

/** Only a notification can be in time: the poll is a minute away. */
const test = base.extend('sluice', ({ database }) => startTestSluice(database, { pollInterval: NO_POLL }))

const MODES = [
  { mode: 'transactional', batchSize: 1 },
  { mode: 'leased', concurrency: 1 },
] as const

describe.for(MODES)('a queue that is paused, for a pipeline in mode $mode,', (options) => {
  test('is claimed no more, what is in hand ends, and it goes on where it was', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const ids: string[] = []
    const first = Promise.withResolvers<void>()
    const pipeline = sluice.pipeline(queue, options as { readonly mode: 'leased' })
    pipeline
      .handle(async ({ id }) => {
        ids.push(id)
        if (ids.length === 1) await first.promise
      })
      .start()
    const put3 = await put(sluice, queue, [1, 2, 3])
    await waitFor(() => ids.length === 1, { what: 'the first message' })
    expect(await sluice.operate.queues.pause(queue, { by: 'ada', reason: 'a test' })).toBe(true)
    expect(await log.first('pipeline.paused')).toMatchObject({ queue, by: 'ada', reason: 'a test' })
    first.resolve()
    await log.first('batch.committed')
    expect(await payloadsOf(database, queue)).toEqual([2, 3])
    expect(ids).toEqual(put3.slice(0, 1))
    expect(await sluice.operate.queues.resume(queue)).toBe(true)
    await untilEmpty(database, queue)
    expect(ids).toEqual(put3)
    expect(log.of('pipeline.resumed')).toHaveLength(1)
  })

  test('has no waiting flag, so that producers notify nobody, and is waited for again when it goes on', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const handled: unknown[] = []
    const pipeline = sluice.pipeline(queue, options as { readonly mode: 'leased' })
    pipeline.handle(({ payload }) => void handled.push(payload)).start()
    await raisedFlag(database, queue)
    await sluice.operate.queues.pause(queue)
    await loweredFlag(database, queue)
    await using ear = await sleepOn(database.url, queue, { flag: false })
    await put(sluice, queue, ['while paused'])
    expect((await ear.notifications()).filter((payload) => payload === queue)).toEqual([])
    await sluice.operate.queues.resume(queue)
    await untilEmpty(database, queue)
    await raisedFlag(database, queue)
    await put(sluice, queue, ['later'])
    await untilEmpty(database, queue)
    expect(handled).toEqual(['while paused', 'later'])
    expect(log.of('pipeline.paused')).toHaveLength(1)
  })

  test('is not claimed from by a pipeline that starts while it is paused, and drains at once', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await sluice.operate.queues.pause(queue, { by: 'ada' })
    await put(sluice, queue, [1])
    const running = sluice
      .pipeline(queue, options as { readonly mode: 'leased' })
      .handle(() => undefined)
      .start()
    await log.first('pipeline.paused')
    await log.first('pipeline.started')
    running.poke()
    expect(await running.drain()).toEqual({ completed: true })
    expect(await payloadsOf(database, queue)).toEqual([1])
    expect(log.of('batch.claimed')).toEqual([])
  })

  test('leaves runOnce with nothing to do', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    await sluice.operate.queues.pause(queue)
    const pipeline = sluice.pipeline(queue, options as { readonly mode: 'leased' }).handle(() => undefined)
    expect(await pipeline.runOnce()).toMatchObject({ counts: { acked: 0 } })
    expect(await payloadsOf(database, queue)).toEqual([1])
    await startTestSluice(database).operate.queues.resume(queue)
    expect(
      await startTestSluice(database)
        .pipeline(queue)
        .handle(() => undefined)
        .runOnce(),
    ).toMatchObject({
      counts: { acked: 1 },
    })
  })

  test('goes on in other processes if one pipeline alone is paused, and that one goes on when it is told', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    const handled: string[] = []
    const handle = (name: string) => () => void handled.push(name)
    const pipeline = (of: typeof sluice) => of.pipeline(queue, options as { readonly mode: 'leased' })
    const running = pipeline(sluice).handle(handle('paused')).start()
    running.pause()
    expect(running.paused).toBe(true)
    expect(await log.first('pipeline.paused')).toEqual({ kind: 'pipeline.paused', queue, by: null, reason: null })
    const other = startTestSluice(database)
    const others = pipeline(other).handle(handle('other')).start()
    await put(sluice, queue, [1, 2])
    await untilEmpty(database, queue)
    await others.drain()
    await put(sluice, queue, [3])
    // The queue's own pause and its end do not end the one of this pipeline.
    await sluice.operate.queues.pause(queue)
    await sluice.operate.queues.resume(queue)
    running.resume()
    expect(running.paused).toBe(false)
    await untilEmpty(database, queue)
    expect(handled).toEqual(['other', 'other', 'paused'])
  })
})

describe('a queue that is paused', () => {
  test('gives nothing to claims and pop, also when they are asked in SQL', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1, 2])
    await sluice.operate.queues.pause(queue)
    expect(await sluice.claim(queue)).toBeUndefined()
    expect(await sluice.pop(queue)).toEqual([])
    expect(await database.sql('SELECT FROM sluice.claim($1)', [queue])).toEqual([])
    expect(await database.sql('SELECT FROM sluice.pop($1)', [queue])).toEqual([])
    await sluice.operate.queues.resume(queue)
    expect(await sluice.pop(queue)).toMatchObject([{ payload: 1 }])
    expect((await sluice.claim(queue))?.messages).toMatchObject([{ payload: 2 }])
  })

  test('lets a claim in hand be settled, renewed and released', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1, 2])
    const claim = await sluice.claim(queue)
    await sluice.operate.queues.pause(queue)
    await claim?.renew('1m')
    expect(await claim?.settle(claim.messages[0]!)).toMatchObject({ settled: [claim?.messages[0]?.id] })
    expect(await claim?.release()).toBe(1)
    expect(await payloadsOf(database, queue)).toEqual([2])
  })

  test('lets a claim go on waiting, without a flag, until it goes on', async ({ sluice, queue }) => {
    const sent = recordStatements()
    const count = (part: string) => sent.filter(({ text }) => text.includes(part)).length
    await sluice.operate.queues.pause(queue)
    const claimed = sluice.claim(queue, { wait: '1m' })
    await waitFor(() => count('is_paused') > 0, { what: 'the claim to wait' })
    await put(sluice, queue, ['hello'])
    await sluice.operate.queues.resume(queue)
    expect((await claimed)?.messages).toMatchObject([{ payload: 'hello' }])
    expect(count('pg_try_advisory_lock(746501')).toBe(0)
  })

  test('is paused by the poll where no notification comes', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: '100ms' })
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).start()
    await raisedFlag(database, queue)
    await database.sql(`SET sluice.notify = off; SELECT sluice.pause('${queue}'); RESET sluice.notify`)
    await loweredFlag(database, queue)
    await put(sluice, queue, [1])
    await database.sql(`SET sluice.notify = off; SELECT sluice.resume('${queue}'); RESET sluice.notify`)
    expect((await steps.endNext()).payload).toBe(1)
    await untilEmpty(database, queue)
  })

  test('is not paused by a transaction that is rolled back', async ({ database, sluice, queue }) => {
    const client = await database.pool.connect()
    await client.query('BEGIN')
    expect(await sluice.operate.queues.pause(queue, { tx: client })).toBe(true)
    await client.query('ROLLBACK')
    client.release()
    await put(sluice, queue, [1])
    expect(await sluice.pop(queue)).toHaveLength(1)
  })
})
