import { describe, expect } from 'vitest'
import { createEffects, effectsOf, enqueue } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { untilEmpty } from '../support/rows/rows.ts'
import { test as base } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

describe('worker processes', () => {
  test('P1: share a queue, and each message takes effect once', async ({ database, queue }) => {
    const workers = [
      await WorkerProcess.start(database, queue, { batchSize: 2 }),
      await WorkerProcess.start(database, queue, { batchSize: 2 }),
    ]
    const ids = await enqueue(
      database,
      queue,
      Array.from({ length: 200 }, () => ({ ms: 2 })),
    )
    await untilEmpty(database, queue)
    const effects = await effectsOf(database, ids)
    expect(effects.map(({ id }) => id)).toEqual(ids)
    for (const { name, begun } of workers) {
      expect(begun).toBeGreaterThan(10)
      expect(effects.filter(({ worker }) => worker === name)).toHaveLength(begun)
    }
  })

  test('P4: another takes over from one that hangs, whose transaction takes no effect', async ({ database, queue }) => {
    const options = { timeout: 1_000, batchSize: 1 }
    const [id] = await enqueue(database, queue, [{ wait: true }])
    const frozen = await WorkerProcess.start(database, queue, options)
    await frozen.handling(id!)
    frozen.signal('SIGSTOP')
    const other = await WorkerProcess.start(database, queue, options)
    // The server ends the transaction of the frozen process a while after the longest that it should take.
    await other.handling(id!)
    other.order('go')
    await untilEmpty(database, queue)
    frozen.order('go')
    frozen.signal('SIGCONT')
    await frozen.event('batch.released')
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: other.name }])

    await other.kill()
    const [next] = await enqueue(database, queue, [{}])
    await frozen.handling(next!)
    await untilEmpty(database, queue)
    expect(await effectsOf(database, [next!])).toEqual([{ id: next, worker: frozen.name }])
  })

  test('nothing keeps a process alive that has stopped', async ({ database, queue }) => {
    const ids = await enqueue(database, queue, [{}, {}])
    const worker = await WorkerProcess.start(database, queue)
    await untilEmpty(database, queue)
    worker.order('stop')
    expect(await worker.ended).toBe(0)
    expect((await effectsOf(database, ids)).map(({ worker: name }) => name)).toEqual([worker.name, worker.name])
    const isGone = async () =>
      (await database.sql('SELECT FROM sluice.workers WHERE name = $1', [worker.name])).length === 0
    await waitFor(isGone, { what: 'the worker to be off the books' })
  })
})
