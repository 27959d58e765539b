import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { recordBatches, registerWorker, workerIdOf } from '../../../src/table/worker/worker.ts'
import { busyWorker, openSession, reasonOf, sessionOf, words } from '../../support/explain/reasons.ts'
import { register } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('a message that is due and free', () => {
  test('for a minute while the worker is busy names the worker, and one that has just come does not', async ({
    database,
    queue,
    sluice,
  }) => {
    await busyWorker(sluice, queue)
    await untilRecorded(database, queue)
    const [worker] = await sluice.operate.workers.list({ queue })
    const [id = ''] = await put(sluice, queue, [1])
    expect((await sluice.operate.messages.explain(queue, id)).headline).toMatchObject({
      reason: 'due_now',
      explanation: expect.stringMatching(/, and nothing is in its way: the next claim takes it\.$/),
      remedy: null,
    })
    await age(database, id, '55 seconds')
    const said = `no claim has taken it yet. Worker "${worker?.name}" consumes the queue, and has 1 message of it in flight.`
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'due_now',
      explanation: expect.stringMatching(
        /^It has been due for 5\ds, and nothing is in its way: no claim has taken it yet/,
      ),
      details: { workers: 1, stale: 0, inFlight: 1 },
      remedy: `SELECT * FROM sluice.in_flight WHERE queue = '${queue}' ORDER BY claimed_at;`,
    })
    expect(headline.explanation).toContain(said)
    expect(reasonOf(await sluice.operate.queues.explain(queue), 'due_now').explanation).toContain(said)
  })

  test('while its worker has nothing in flight sends to the doctor', async ({ database, queue, sluice }) => {
    await register(database, { name: 'web-1', queues: [queue], alive: true })
    const [id = ''] = await put(sluice, queue, [1])
    await age(database, id, '55 seconds')
    expect((await sluice.operate.messages.explain(queue, id)).headline).toMatchObject({
      reason: 'due_now',
      explanation: expect.stringContaining('Worker "web-1" consumes the queue, and has nothing of it in flight.'),
      remedy: 'npx sluice doctor',
    })
  })

  test('says when its worker was last seen once a heartbeat is late, and not before', async ({
    database,
    queue,
    sluice,
  }) => {
    await register(database, { name: `${queue} 1`, queues: [queue], alive: true })
    const [id = ''] = await put(sluice, queue, [1])
    await age(database, id, '55 seconds')
    const said = async () => (await sluice.operate.messages.explain(queue, id)).headline
    expect((await said()).explanation).not.toContain('last seen')
    await silence(database, `${queue} 1`, '54 seconds')
    expect(await said()).toMatchObject({
      reason: 'due_now',
      explanation: expect.stringMatching(
        /Worker ".+ 1" consumes the queue, was last seen 5\ds ago, and has nothing of it in flight\.$/,
      ),
      remedy: 'npx sluice doctor',
    })
    await register(database, { name: `${queue} 2`, queues: [queue], alive: true })
    expect((await said()).explanation).toMatch(/ in flight\. Worker ".+ 1" was last seen 5\ds ago\.$/)
  })

  test('waits in its queue for the end of a pause, for a worker, or for a limit', async ({
    database,
    queue,
    sluice,
  }) => {
    const ends = async () =>
      reasonOf(await sluice.operate.queues.explain(queue), 'due_now')
        .explanation.split(': ')
        .at(-1)
    await put(sluice, queue, [1])
    expect(await ends()).toBe('no live worker consumes the queue.')
    await sluice.operate.queues.pause(queue)
    expect(await ends()).toBe('no claim takes it before the queue is resumed.')
    await sluice.operate.queues.resume(queue)
    await register(database, { name: 'web-1', queues: [queue], alive: true })
    expect(await ends()).toBe('the next claim takes it.')
    await put(sluice, queue, [2])
    expect(await ends()).toBe('the next claims take them.')
    await sluice.operate.queues.settings.set(queue, { concurrency: 1 })
    await sluice.claim(queue, { limit: 1 })
    expect(await ends()).toBe('no claim takes it before one that is in flight has ended.')
  })

  test('is not behind what a transaction has in flight', async ({ database, queue, sluice }) => {
    await busyWorker(sluice, queue, {}, { priority: 0 })
    await untilRecorded(database, queue)
    const [first = '', second = ''] = await put(sluice, queue, [1, 2])
    expect(words(await sluice.operate.messages.explain(queue, first))).toEqual(['due_now'])
    expect((await sluice.operate.messages.explain(queue, second)).headline.details).toMatchObject({ count: 1 })
  })
})

describe('a worker that is stale', () => {
  test('is why messages wait if no other consumes the queue, and its process is to end', async ({
    database,
    queue,
    sluice,
  }) => {
    const [id = ''] = await put(sluice, queue, [1])
    await register(database, { name: `${queue} 1`, queues: [queue], alive: true })
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['due_now'])
    await silence(database, `${queue} 1`)
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'worker_stale',
      explanation: `Worker "${queue} 1" (process 1 on host) has sent no heartbeat for 5m, and its connection is open: the process hangs or is stopped, or its machine is gone.`,
      details: { worker: `${queue} 1`, workerPid: 1, host: 'host' },
      remedy: 'kill -9 1 # on host',
    })
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['worker_stale', 'due_now'])
    await register(database, { name: `${queue} 2`, queues: [queue], alive: true })
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['due_now'])
  })

  test('is the first reason of what it has in flight', async ({ database, queue, sluice }) => {
    const { id } = await busyWorker(sluice, queue, { mode: 'leased', lease: '1m' })
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['leased'])
    const worker = await lostWorker(database, `${queue} lost`, queue)
    const [held = ''] = await put(sluice, `${queue}.held`, [1])
    const { session } = await openSession(database, 'a worker')
    await session.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [held])
    await recordBatches(
      worker.execute,
      worker.id,
      [],
      [{ id: 1, queue: `${queue}.held`, messageIds: [held], attempts: [] }],
    )
    await silence(database, `${queue} lost`)
    const explained = await sluice.operate.messages.explain(`${queue}.held`, held)
    expect(words(explained)).toEqual(['worker_stale', 'in_flight'])
    expect(explained.headline.explanation).toContain(`Worker "${queue} lost"`)
  })
})

describe('a worker that is gone', () => {
  test('has left a lease, which any live worker ends', async ({ database, queue, sluice }) => {
    const worker = await lostWorker(database, `${queue} lost`, queue)
    const [id = ''] = await put(sluice, queue, [1])
    await database.sql(
      `UPDATE sluice.message SET lease = $2::bigint << 32 | 1, due_at = due_at + interval '5 minutes' WHERE id = $1`,
      [id, worker.id],
    )
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['leased'])
    await worker.end()
    const explained = () => sluice.operate.messages.explain(queue, id)
    // Nor is a worker of the tests before alive.
    const areGone = async () => reasonOf(await explained(), 'leased').remedy?.startsWith('node worker.ts') === true
    await waitFor(areGone, { what: 'the server to notice' })
    expect((await explained()).headline).toMatchObject({
      explanation: expect.stringMatching(
        / is gone\. Any live worker frees the message within about a second; without one its lease lasts for another \d+m/,
      ),
      remedy: 'node worker.ts # or npx sluice work ./worker.ts; any worker will do',
    })
    await register(database, { name: 'another', queues: [`${queue}.other`], alive: true })
    expect((await explained()).headline.remedy).toBe(null)
  })
})

describe('a message that is gone', () => {
  test('is not that of a transaction which began after a later message had been enqueued', async ({
    database,
    queue,
    sluice,
  }) => {
    const [gone = ''] = await put(sluice, queue, [1])
    await sluice.pop(queue)
    const explain = (id: string) => sluice.operate.messages.explain(queue, id)
    const early = await openSession(database, 'early')
    await early.session.query(`SELECT sluice.enqueue($1, '{}')`, [queue])
    expect(words(await explain(gone))).toEqual(['not_committed', 'not_found'])
    await put(startTestSluice(database), `${queue}.other`, [2])
    const late = await openSession(database, 'late')
    const { rows } = await late.session.query<{ id: string }>(`SELECT sluice.enqueue($1, '{}')::text AS id`, [queue])
    const explained = await explain(gone)
    expect(words(explained)).toEqual(['not_committed', 'not_found'])
    expect(explained.headline.details).toMatchObject({ application: 'early' })
    await early.session.query('ROLLBACK')
    expect(words(await explain(gone))).toEqual(['not_found'])
    expect((await explain(rows[0]!.id)).headline).toMatchObject({
      reason: 'not_committed',
      details: { application: 'late' },
    })
  })
})

describe('a message that is gone, with none after it', () => {
  test('is not that of a transaction which began after maintenance had noted its id', async ({
    database,
    queue,
    sluice,
  }) => {
    const [gone = ''] = await put(sluice, queue, [1])
    await database.sql('DELETE FROM sluice.message')
    await database.sql('DELETE FROM sluice.id_mark')
    const explain = (id: string) => sluice.operate.messages.explain(queue, id)
    const early = await openSession(database, 'early')
    await early.session.query('DELETE FROM sluice.message')
    expect(words(await explain(gone))).toEqual(['not_committed', 'not_found'])
    await sluice.operate.maintain()
    expect(words(await explain(gone))).toEqual(['not_committed', 'not_found'])
    await early.session.query('ROLLBACK')
    const late = await openSession(database, 'late')
    const { rows } = await late.session.query<{ id: string }>(`SELECT sluice.enqueue($1, '{}')::text AS id`, [queue])
    expect(words(await explain(gone))).toEqual(['not_found'])
    expect(words(await explain(rows[0]!.id))).toEqual(['not_committed', 'not_found'])
  })
})

/** A worker on the books whose control connection can be ended. */
async function lostWorker(database: TestDatabase, name: string, queue: string) {
  const session = await sessionOf(database, 'a worker')
  const execute = executeOn(session)
  const identity = { name, host: 'there', pid: 1, version: '0' }
  const id = await workerIdOf(execute, identity)
  await registerWorker(execute, id, identity, [queue])
  return { id, execute, end: () => session.end() }
}

async function silence(database: TestDatabase, name: string, by = '5 minutes'): Promise<void> {
  await database.sql('UPDATE sluice.worker SET seen_at = clock_timestamp() - $2::interval WHERE name = $1', [name, by])
}

async function age(database: TestDatabase, id: string, by: string): Promise<void> {
  await database.sql('UPDATE sluice.message SET due_at = due_at - $2::interval WHERE id = $1', [id, by])
}

async function untilRecorded(database: TestDatabase, queue: string): Promise<void> {
  const isRecorded = async () =>
    (await database.sql('SELECT FROM sluice.batch_record WHERE queue = $1', [queue])).length > 0
  await waitFor(isRecorded, { what: 'the record of the batch' })
}
