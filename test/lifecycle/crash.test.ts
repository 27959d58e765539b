import { describe, expect } from 'vitest'
import { Control } from '../../src/connection/control.ts'
import type { PipelineOptions } from '../../src/plan/options.ts'
import { Reaper } from '../../src/services/reaper.ts'
import { createEffects, effectsOf, enqueue } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { untilEmpty, untilRecorded } from '../support/rows/rows.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test as base } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

const test = base.extend('effects', { auto: true }, ({ database }) => createEffects(database))

describe('a worker process that dies', () => {
  test('P1, P4: its message is available at once, and takes effect exactly once', async ({ database, queue }) => {
    const [id] = await enqueue(database, queue, [{ wait: true }])
    const first = await WorkerProcess.start(database, queue)
    expect(await first.handling(id!)).toBe(1)
    const second = await WorkerProcess.start(database, queue)
    await first.kill()
    // It may be so soon that the server has not yet noticed the end of the other session, and the attempt is the first.
    await second.handling(id!)
    second.order('go')
    await untilEmpty(database, queue)
    expect(await effectsOf(database, [id!])).toEqual([{ id, worker: second.name }])
  })

  test('P4: the views tell the truth before, after, and when the reaper has come', async ({ database, queue }) => {
    const ids = await enqueue(database, queue, [{ wait: true }, {}])
    const worker = await WorkerProcess.start(database, queue)
    await worker.handling(ids[0]!)
    const held = ids.map((id) => ({ id, attempt: 1, worker: worker.name, worker_alive: true }))
    await untilRecorded(database, queue, 2)
    expect(await inFlight(database, queue)).toEqual(held)
    expect(await workers(database, worker.name)).toEqual([{ name: worker.name, alive: true, in_flight: 2 }])
    expect(await states(database, queue)).toEqual(['in_flight', 'in_flight'])

    await worker.kill()
    await waitFor(async () => (await workers(database, worker.name))[0]?.alive === false, {
      what: 'the server to notice',
    })
    // The batch has a session of its own, whose end it may notice later.
    await waitFor(async () => !(await states(database, queue)).includes('in_flight'), { what: 'the rows to be free' })
    expect(await inFlight(database, queue)).toEqual(held.map((row) => ({ ...row, worker_alive: false })))
    expect(await states(database, queue)).toEqual(['ready', 'ready'])
    expect(await evidence(database, queue)).toEqual([])

    expect(await reap(database)).toBe(1)
    expect(await evidence(database, queue)).toEqual(ids.map((message_id) => ({ message_id, worker: worker.name })))
    expect([await inFlight(database, queue), await workers(database, worker.name)]).toEqual([[], []])
    expect(await reap(database)).toBe(0)
  })

  test('P2, P4: a message that kills its process dies, its siblings are handled exactly once', async ({
    database,
    queue,
  }) => {
    const payloads = Array.from({ length: 10 }, (_, at) => (at === 4 ? { kill: true } : {}))
    const ids = await enqueue(database, queue, payloads)
    const poison = ids[4]!
    const attempts: number[] = []
    // Someone starts the process again whenever it has died.
    for (let deaths = 0; deaths < 3; deaths++) {
      const worker = await WorkerProcess.start(database, queue, { batchSize: 10 })
      expect(await worker.ended).toBe('SIGKILL')
      attempts.push(...worker.attemptsOf(poison))
    }
    expect(attempts).toEqual([1, 2, 3])
    const last = await WorkerProcess.start(database, queue, { batchSize: 10 })
    await untilEmpty(database, queue)
    expect(last.attemptsOf(poison)).toEqual([])
    expect(await deadLetters(database, queue)).toEqual([
      { id: poison, attempt: 3, reason: 'crashed: 3 processes died or hung while they handled this message' },
    ])
    const innocent = ids.filter((id) => id !== poison)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(innocent)
    expect(await evidence(database, queue)).toEqual([])
  })

  test('P2, P4: in a busy fleet too, no innocent message dies with the one that kills', async ({ database, queue }) => {
    const payloads = Array.from({ length: 600 }, (_, at) => (at === 5 || at === 300 ? { kill: true } : { ms: 2 }))
    const ids = await enqueue(database, queue, payloads)
    const killers = [ids[5]!, ids[300]!]
    await keepRunning(database, queue, { processes: 5, batchSize: 10 })
    expect((await deadLetters(database, queue)).map(({ id }) => id)).toEqual(killers)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(ids.filter((id) => !killers.includes(id)))
  })

  test('P2, P4: what the other slots of the process have in hand does not die', async ({ database, queue }) => {
    const ids = await enqueue(database, queue, [
      { ms: 1_000 },
      { ms: 1_000 },
      { kill: true },
      { ms: 1_000 },
      { ms: 1_000 },
    ])
    const options = { concurrency: 5, batchSize: 1 }
    for (let deaths = 0; deaths < 3; deaths++) await (await WorkerProcess.start(database, queue, options)).ended
    await WorkerProcess.start(database, queue, options)
    await untilEmpty(database, queue)
    const innocent = ids.filter((id) => id !== ids[2])
    expect(await deadLetters(database, queue)).toMatchObject([{ id: ids[2], attempt: 3 }])
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(innocent)
  })

  test('P2, P4: what is in hand beside two messages that kill late does not die, be it older or younger', async ({
    database,
    queue,
  }) => {
    const killer = { ms: 700, kill: true }
    const slow = { ms: 1_500 }
    const ids = await enqueue(database, queue, [slow, killer, slow, killer, slow, slow])
    const killers = [ids[1]!, ids[3]!]
    await keepRunning(database, queue, { processes: 1, concurrency: 4, batchSize: 1 })
    expect((await deadLetters(database, queue)).map(({ id }) => id)).toEqual(killers)
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual(ids.filter((id) => !killers.includes(id)))
  })

  test('P4: what was handled before the one that kills is kept, once it has been in hand at a death', async ({
    database,
    queue,
  }) => {
    const ids = await enqueue(database, queue, [{}, {}, { wait: true, kill: true }])
    const first = await WorkerProcess.start(database, queue, { batchSize: 10 })
    await first.handling(ids[2]!)
    await first.kill()
    await waitFor(async () => (await workers(database, first.name))[0]?.alive === false, {
      what: 'the server to notice',
    })
    const second = await WorkerProcess.start(database, queue, { batchSize: 10 })
    await second.handling(ids[2]!)
    expect(await effectsOf(database, ids)).toEqual([
      { id: ids[0], worker: second.name },
      { id: ids[1], worker: second.name },
    ])
  })

  test('P4: with a crash limit of one the siblings of the batch do not die', async ({ database, queue }) => {
    const ids = await enqueue(database, queue, [{}, { kill: true }, {}])
    const options = { batchSize: 10, crashLimit: 1 }
    for (let deaths = 0; deaths < 2; deaths++) await (await WorkerProcess.start(database, queue, options)).ended
    await WorkerProcess.start(database, queue, options)
    await untilEmpty(database, queue)
    expect((await deadLetters(database, queue)).map(({ id }) => id)).toEqual([ids[1]])
    expect((await effectsOf(database, ids)).map(({ id }) => id)).toEqual([ids[0], ids[2]])
  })
})

/** Keeps processes running until the queue is empty: each that dies is started again. */
async function keepRunning(
  database: TestDatabase,
  queue: string,
  { processes, ...options }: PipelineOptions & { readonly processes: number },
): Promise<void> {
  let finished = false
  const keep = async () => {
    while (!finished) await (await WorkerProcess.start(database, queue, options)).ended
  }
  // What still runs when the test ends is killed then.
  void Promise.allSettled(Array.from({ length: processes }, keep))
  try {
    await untilEmpty(database, queue, 150_000)
  } finally {
    finished = true
  }
}

async function reap(database: TestDatabase): Promise<number> {
  const connection = { connectionString: database.url }
  const control = new Control({ connection, connectTimeoutMs: 5_000, report: () => undefined })
  await control.start()
  try {
    return await new Reaper({ control, workerId: () => 0, report: () => undefined }).runOnce()
  } finally {
    await control.stop()
  }
}

function evidence(database: TestDatabase, queue: string) {
  return database.sql('SELECT message_id, worker FROM sluice.crash WHERE queue = $1 ORDER BY message_id, worker', [
    queue,
  ])
}

function inFlight(database: TestDatabase, queue: string) {
  return database.sql('SELECT id, attempt, worker, worker_alive FROM sluice.in_flight WHERE queue = $1 ORDER BY id', [
    queue,
  ])
}

function workers(database: TestDatabase, name: string) {
  return database.sql('SELECT name, alive, in_flight FROM sluice.workers WHERE name = $1', [name])
}

async function states(database: TestDatabase, queue: string): Promise<unknown[]> {
  const rows = await database.sql('SELECT state FROM sluice.messages WHERE queue = $1 ORDER BY id', [queue])
  return rows.map(({ state }) => state)
}

function deadLetters(database: TestDatabase, queue: string) {
  return database.sql<{ id: string }>(
    'SELECT id, attempt, reason FROM sluice.dead_letters WHERE queue = $1 ORDER BY id',
    [queue],
  )
}
