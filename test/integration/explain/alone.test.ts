import { describe, expect } from 'vitest'
import { reasonOf, words } from '../../support/explain/reasons.ts'
import { register } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

describe('a message that processes died with', () => {
  test('has its process to itself, and what waits for that says so, in every queue of the worker', async ({
    database,
    queue,
    sluice,
  }) => {
    const other = `${queue}.other`
    const { ids, id, release, attempt } = await runAlone(database, queue, other)
    const [waits = ''] = await put(sluice, other, ['waits'])
    const alone = `Worker "w4" handles message ${queue}/${id} alone`
    const explain = (name: string, message: string) => sluice.operate.messages.explain(name, message)
    await waitFor(async () => (await explain(other, waits)).headline.reason === 'alone', {
      what: 'the record of what runs alone',
    })
    expect((await explain(other, waits)).headline).toMatchObject({
      reason: 'alone',
      explanation: expect.stringMatching(
        / because processes died with it: it takes nothing else until that has ended\.$/,
      ),
      details: { worker: 'w4', queue, message: id },
      remedy: `npx sluice message cancel ${queue} ${id}`,
    })
    expect((await explain(other, waits)).headline.explanation).toContain(alone)
    const ofQueue = await sluice.operate.queues.explain(other)
    expect(words(ofQueue)).toEqual(['alone', 'due_now'])
    expect(reasonOf(ofQueue, 'due_now')).toMatchObject({
      explanation: expect.stringMatching(/no worker takes it before that message has ended\.$/),
      remedy: null,
    })
    // The second of the two waits for its turn, and the first is its reason too.
    const next = await explain(queue, ids.find((one) => one !== id)!)
    expect(words(next)).toEqual(['alone', 'alone', 'crash_evidence'])
    expect(next.headline.explanation).toMatch(/^It waits for a worker process to be free, to run alone: /)
    expect(next.others[0]?.explanation).toContain(alone)
    // It has the attempt that its handler has.
    expect(attempt).toBe(3)
    const running = await explain(queue, id)
    expect(running.headline).toMatchObject({ reason: 'leased', details: { attempt } })
    expect(reasonOf(running, 'crash_evidence').explanation).toMatch(/2 attempts have failed so far; it runs alone\.$/)

    await register(database, { name: 'w5', queues: [other], alive: true })
    expect((await explain(other, waits)).headline.reason).toBe('due_now')
    release()
    await waitFor(async () => (await explain(other, waits)).headline.reason === 'not_found', {
      what: 'the other queue to go on',
    })
  })

  test('which was alone may be the reason, because its worker may have been killed by hand', async ({
    database,
    queue,
    sluice,
  }) => {
    const [id = ''] = await put(sluice, queue, [1])
    await database.sql(`SELECT sluice_private.record_crash($1, $2, 4711, 1, 'vanished', 'w1', true)`, [queue, id])
    const explained = await sluice.operate.messages.explain(queue, id)
    expect(reasonOf(explained, 'crash_evidence').explanation).toMatch(/so it may be the reason\.$/)
  })
})

/** Two messages that two processes died with, of which a worker, w4, handles the first. It consumes another queue too. */
async function runAlone(database: TestDatabase, queue: string, other: string) {
  const sluice = startTestSluice(database, { name: 'w4' })
  const [began, go] = [deferred<{ readonly id: string; readonly attempt: number }>(), deferred()]
  const ids = await put(sluice, queue, [1, 2])
  await database.sql(
    `INSERT INTO sluice.crash (queue, message_id, worker_id, batch_id, kind, worker, alone)
     SELECT $1, m.id, -n, 1, 'vanished', 'dead', false FROM unnest($2::bigint[]) AS m (id), generate_series(1, 2) AS n`,
    [queue, ids],
  )
  sluice
    .pipeline(queue, { mode: 'leased', lease: '1m' })
    .handle(async ({ id }, { attempt }) => {
      began.resolve({ id, attempt })
      await go.promise
    })
    .start()
  sluice
    .pipeline(other)
    .handle(() => undefined)
    .start()
  return { ids, ...(await began.promise), release: () => go.resolve() }
}
