import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { type Sleeper, sleepOn } from '../../support/processes/sleeper.ts'
import { controlPid, flagHolder, loweredFlag, NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startProxy } from '../../support/servers/tcp-proxy.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

/** Nothing here is found by the poll: it does not come in time. */
describe('the waiting flag', () => {
  test('P5: an enqueue for which nobody waits notifies nobody', async ({ database, queue, sluice }) => {
    await using ear = await sleepOn(database.url, queue, { flag: false })
    await put(sluice, queue, [1, 2, 3])
    expect(await queuesHeard(ear)).toEqual([])
  })

  test('P5: a transaction notifies once of each queue for which somebody waits', async ({ database, queue }) => {
    const names = [`${queue}.a`, `${queue}.b`]
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const steps = new Steps()
    for (const name of names) sluice.pipeline(name).handle(steps.handle).subscribe()
    for (const name of names) await raisedFlag(database, name)
    await using ear = await sleepOn(database.url, queue, { flag: false })
    const tx = await transaction(database)
    for (const name of [...names, ...names, `${queue}.nobody`]) await tx.query(ENQUEUE, [name])
    await tx.query('COMMIT')
    await Promise.all([steps.next(), steps.next()])
    expect((await queuesHeard(ear)).toSorted()).toEqual(names)
  })

  test('P5: a busy queue never notifies', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const steps = new Steps()
    sluice.pipeline(queue, { batchSize: 1 }).handle(steps.handle).subscribe()
    await raisedFlag(database, queue)
    await put(sluice, queue, [0])
    const first = await steps.next()
    await loweredFlag(database, queue)
    await using ear = await sleepOn(database.url, queue, { flag: false })
    for (const payload of [1, 2, 3]) await put(sluice, queue, [payload])
    expect(await queuesHeard(ear)).toEqual([])
    first.end()
    for (const payload of [1, 2]) {
      const step = await steps.next()
      expect(step.payload).toBe(payload)
      step.end()
    }
    await steps.next()
    expect(await queuesHeard(ear)).toEqual([])
  })

  test('P5: a queue with a slot to spare is still waited for', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const steps = new Steps()
    sluice.pipeline(queue, { batchSize: 1, concurrency: 2 }).handle(steps.handle).subscribe()
    await raisedFlag(database, queue)
    for (const payload of [1, 2]) {
      await put(sluice, queue, [payload])
      expect((await steps.next()).payload).toBe(payload)
    }
    await loweredFlag(database, queue)
  })

  test('rows that are due later notify nobody', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .subscribe()
    await raisedFlag(database, queue)
    await using ear = await sleepOn(database.url, queue, { flag: false })
    await put(sluice, queue, [1, 2], { delay: '1m' })
    expect(await queuesHeard(ear)).toEqual([])
  })

  test('P5: who has work gives the flag up and tells the others', async ({ database, queue }) => {
    const workers = await Promise.all(['a', 'b'].map((name) => startWorker(database, queue, name)))
    const holder = await raisedFlag(database, queue)
    await put(workers[0]!.sluice, queue, [1])
    const busy = await waitFor(() => workers.find(({ steps }) => steps.taken.length > 0), {
      what: 'a worker to take it',
    })
    const idle = workers.find((worker) => worker !== busy)!
    await waitFor(async () => (await flagHolder(database, queue)) === idle.pid, { what: 'the idle worker to wait' })
    expect([busy.pid, idle.pid]).toContain(holder)
    await put(idle.sluice, queue, [2])
    expect((await idle.steps.next()).payload).toBe(2)
  })

  test('P5: another process waits when the one that did has stopped', async ({ database, queue }) => {
    const first = await startWorker(database, queue, 'first')
    expect(await raisedFlag(database, queue)).toBe(first.pid)
    const second = await startSecondWorker(database, queue, 'second', NO_POLL)
    await first.sluice.stop()
    await waitFor(async () => (await flagHolder(database, queue)) === second.pid, { what: 'the second to wait' })
    await put(second.sluice, queue, [1])
    await second.steps.next()
  })

  test('P5: another process waits when the one that did has vanished', async ({ database, queue }) => {
    const proxy = await startProxy(database.url)
    const first = await startWorker(database, queue, 'vanishing', { directConnection: proxy.url })
    expect(await raisedFlag(database, queue)).toBe(first.pid)
    const second = await startSecondWorker(database, queue, 'second', 100)
    proxy.refusing = true
    proxy.cut()
    await waitFor(async () => (await flagHolder(database, queue)) === second.pid, { what: 'the second to wait' })
  })

  test('P5: a lost control connection raises its flags again', async ({ database, queue }) => {
    const worker = await startWorker(database, queue, 'killed')
    expect(await raisedFlag(database, queue)).toBe(worker.pid)
    await database.sql('SELECT pg_terminate_backend($1)', [worker.pid])
    await waitFor(async () => ![undefined, worker.pid].includes(await flagHolder(database, queue)), {
      what: 'the flag',
    })
    await put(worker.sluice, queue, [1])
    await worker.steps.next()
  })

  test('P5: an enqueue that is in flight when a process sleeps is found after its commit', async ({
    database,
    queue,
  }) => {
    const tx = await transaction(database)
    await tx.query(ENQUEUE, [queue])
    const worker = await startWorker(database, queue, 'parking')
    // A later enqueue that commits meanwhile finds no flag either, and notifies nobody.
    await put(worker.sluice, queue, ['second'])
    const second = await worker.steps.next()
    expect({ payload: second.payload, holder: await flagHolder(database, queue) }).toEqual({
      payload: 'second',
      holder: undefined,
    })
    second.end()
    await tx.query('COMMIT')
    const first = await worker.steps.next()
    first.end()
    await raisedFlag(database, queue)
  })

  test('P5: an enqueue that was in flight and rolled back leaves the queue waited for', async ({ database, queue }) => {
    const tx = await transaction(database)
    await tx.query(ENQUEUE, [queue])
    await startWorker(database, queue, 'waiting')
    expect(await flagHolder(database, queue)).toBeUndefined()
    await tx.query('ROLLBACK')
    await raisedFlag(database, queue)
  })

  test('the consumer of one queue stops, and others do not notice', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { pollInterval: NO_POLL })
    const [gone, stays] = [`${queue}.gone`, `${queue}.stays`]
    const steps = new Steps()
    const subscription = sluice
      .pipeline(gone)
      .handle(() => undefined)
      .subscribe()
    sluice.pipeline(stays).handle(steps.handle).subscribe()
    for (const name of [gone, stays]) await raisedFlag(database, name)
    await subscription.stop()
    for (const payload of [1, 2, 3]) {
      await put(sluice, gone, [payload])
      await put(sluice, stays, [payload])
      const step = await steps.next()
      expect(step.payload).toBe(payload)
      step.end()
    }
    await loweredFlag(database, gone)
  })
})

const ENQUEUE = `SELECT sluice.enqueue($1, '{}')`

/** The queues of the notifications so far, without the news of workers that wait no more. */
async function queuesHeard(ear: Sleeper): Promise<readonly string[]> {
  return (await ear.notifications()).filter((payload) => !payload.startsWith('!'))
}

/** A process that consumes a queue, one message at a time, as far as a test tells processes apart. */
async function startWorker(
  database: TestDatabase,
  queue: string,
  name: string,
  options: { readonly directConnection?: string; readonly pollInterval?: number } = {},
) {
  const sluice = startTestSluice(database, { name: `${queue}.${name}`, pollInterval: NO_POLL, ...options })
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 1 }).handle(steps.handle).subscribe()
  return { sluice, steps, pid: await controlPid(database, `${queue}.${name}`) }
}

/** A second process, which has found that another one waits already. */
async function startSecondWorker(database: TestDatabase, queue: string, name: string, pollInterval: number) {
  const proxy = await startProxy(database.url)
  const worker = await startWorker(database, queue, name, { directConnection: proxy.url, pollInterval })
  const hasTried = () => proxy.statements.some(({ text }) => text.startsWith('sluice_flag_raise'))
  await waitFor(hasTried, { what: 'the second worker to try for the flag' })
  return worker
}

async function transaction(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  await client.query('BEGIN')
  return client
}
