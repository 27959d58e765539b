import { describe, expect } from 'vitest'
import { createEffects, effectsOf, enqueue } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { untilEmpty } from '../support/rows/rows.ts'
import { startRestartableServer } from '../support/servers/restartable-server.ts'
import { test as base } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

const LEASED = { mode: 'leased', concurrency: 10 } as const

describe('in leased mode, four processes', () => {
  test('P1: handle a hundred and one messages once each', async ({ database, queue }) => {
    const workers = await Promise.all(
      Array.from({ length: 4 }, () => WorkerProcess.start(database, queue, { ...LEASED, concurrency: 3 })),
    )
    const ids = await enqueue(
      database,
      queue,
      Array.from({ length: 101 }, () => ({ ms: 5 })),
    )
    await untilEmpty(database, queue)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(ids)
    await waitFor(() => workers.reduce((sum, { begun }) => sum + begun, 0) >= 101, { what: 'all to be told of' })
    expect(ids.flatMap((id) => workers.flatMap((worker) => worker.attemptsOf(id)))).toEqual(ids.map(() => 1))
  })
})

describe('in leased mode, a process that dies', () => {
  test('P1, P4: leaves its message to another at once, although its lease lasts for minutes', async ({
    database,
    queue,
  }) => {
    const [id] = await enqueue(database, queue, [{ wait: true }])
    const first = await WorkerProcess.start(database, queue, LEASED)
    expect(await first.handling(id!)).toBe(1)
    const second = await WorkerProcess.start(database, queue, LEASED)
    await first.kill()
    expect(await second.handling(id!)).toBe(2)
    second.order('go')
    await untilEmpty(database, queue)
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: second.name }])
  })

  test('P1, P4: leaves its message to the next one that starts, if no other runs', async ({ database, queue }) => {
    const [id] = await enqueue(database, queue, [{ wait: true }])
    const first = await WorkerProcess.start(database, queue, LEASED)
    await first.handling(id!)
    await first.kill()
    const second = await WorkerProcess.start(database, queue, LEASED)
    expect(await second.handling(id!)).toBe(2)
    second.order('go')
    await untilEmpty(database, queue)
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: second.name }])
  })

  test('leaves the first message of a key to another, before the later ones', async ({ database, queue, sluice }) => {
    const enqueueKeyed = (payload: object) =>
      sluice.enqueue(sluice.ownTransaction, queue, payload, { orderingKey: 'key' })
    const ids = [await enqueueKeyed({ wait: true }), await enqueueKeyed({}), await enqueueKeyed({})]
    const first = await WorkerProcess.start(database, queue, { ...LEASED, batchSize: 1 })
    await first.handling(ids[0]!)
    const second = await WorkerProcess.start(database, queue, LEASED)
    await first.kill()
    await second.handling(ids[0]!)
    second.order('go')
    await untilEmpty(database, queue)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(ids)
  })

  test('P2, P4: dies of one message, which ends in the dead letters; its siblings are handled exactly once', async ({
    database,
    queue,
  }) => {
    const payloads = Array.from({ length: 10 }, (_, at) => (at === 4 ? { kill: true } : { ms: 20 }))
    const ids = await enqueue(database, queue, payloads)
    // Someone starts the process again whenever it has died.
    let deaths = 0
    let over = false
    const keepRunning = async () => {
      while (!over) {
        const worker = await WorkerProcess.start(database, queue, LEASED)
        if ((await worker.ended) === 'SIGKILL') deaths += 1
      }
    }
    void keepRunning().catch(() => undefined)
    await untilEmpty(database, queue, 60_000)
    over = true
    expect(await database.sql('SELECT id::text FROM sluice.dead_letter WHERE queue = $1', [queue])).toEqual([
      { id: ids[4] },
    ])
    expect(deaths).toBeGreaterThanOrEqual(3)
    const innocent = ids.filter((id) => id !== ids[4])
    const effects = (await effectsOf(database, ids)).map(({ id }) => id)
    expect(effects.toSorted((a, b) => Number(a) - Number(b))).toEqual(innocent)
  })

  test('and one that is stopped past its lease loses its message, and settles nothing when it goes on', async ({
    database,
    queue,
  }) => {
    const [id] = await enqueue(database, queue, [{ wait: true }])
    const first = await WorkerProcess.start(database, queue, { ...LEASED, lease: '1s' })
    await first.handling(id!)
    first.signal('SIGSTOP')
    const second = await WorkerProcess.start(database, queue, { ...LEASED, lease: '1s' })
    expect(await second.handling(id!)).toBe(2)
    first.signal('SIGCONT')
    await first.event('lease.lost')
    first.order('go')
    second.order('go')
    await untilEmpty(database, queue)
    await waitFor(async () => (await effectsOf(database, [id!])).length > 0, { what: 'the effect' })
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: second.name }])
  })
})

test('in leased mode, a crash of the server takes no lease: a handler in hand goes on, and settles when it is back', async () => {
  const server = await startRestartableServer()
  await createEffects(server)
  const [id] = await enqueue(server, 'q', [{ wait: true }])
  const holder = await WorkerProcess.start(server, 'q', LEASED)
  await holder.handling(id!)
  const idle = await WorkerProcess.start(server, 'q', LEASED)
  // A commit that waits for the disk takes all before it along, the claim's too.
  await enqueue(server, 'other', [{}])
  await server.crash()
  const areBack = async () => (await server.sql('SELECT FROM sluice.workers WHERE alive')).length === 2
  await waitFor(areBack, { what: 'both workers to be back' })
  holder.order('go')
  const isEmpty = async () => (await server.sql(`SELECT FROM sluice.message WHERE queue = 'q'`)).length === 0
  await waitFor(isEmpty, { what: 'the message to be settled' })
  expect(await effectsOf(server, [id!])).toEqual([{ id, worker: holder.name }])
  expect([holder, idle].map((worker) => worker.begun)).toEqual([1, 0])
  expect(await server.sql('SELECT FROM sluice.crash')).toEqual([])
})
