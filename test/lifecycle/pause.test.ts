import { describe, expect } from 'vitest'
import { createEffects, effectsOf, enqueue } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { untilEmpty } from '../support/rows/rows.ts'
import { test as base } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

const MODES = [
  { mode: 'transactional', batchSize: 1 },
  { mode: 'leased', concurrency: 1, batchSize: 1 },
] as const

describe.for(MODES)('a queue that is paused while two processes consume it in mode $mode', (options) => {
  test('gives nothing to anybody, also when one of them is killed, and all of it when it goes on', async ({
    database,
    sluice,
    queue,
  }) => {
    const [inHand] = await enqueue(database, queue, [{ wait: true }])
    const first = await WorkerProcess.start(database, queue, options)
    expect(await first.handling(inHand!)).toBe(1)
    const second = await WorkerProcess.start(database, queue, options)
    await sluice.operate.queues.pause(queue, { reason: 'a test' })
    await Promise.all([first, second].map((worker) => worker.event('pipeline.paused')))
    const ids = [inHand!, ...(await enqueue(database, queue, [{}, {}, {}]))]
    await first.kill()
    const third = await WorkerProcess.start(database, queue, options)
    await third.event('pipeline.paused')
    const free = 'SELECT FROM sluice.message WHERE queue = $1 AND due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED'
    const areFree = async () => (await database.sql(free, [queue])).length === ids.length
    await waitFor(areFree, { what: 'what the first process had in hand to be free', timeoutMs: 60_000 })
    expect([second.begun, third.begun]).toEqual([0, 0])
    await sluice.operate.queues.resume(queue)
    const handled = waitFor(() => [second, third].find((worker) => worker.attemptsOf(inHand!).length > 0), {
      what: 'the message of the first process to be handled again',
    })
    void handled.then((worker) => worker.order('go'))
    await untilEmpty(database, queue)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(ids)
    expect((await handled).attemptsOf(inHand!)).toHaveLength(1)
  })
})
