import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { deadLetter, retryLater } from '../../../src/message.ts'
import { recordBatches, registerWorker, workerIdOf } from '../../../src/table/worker/worker.ts'
import { busyWorker, reasonOf, sessionOf, words } from '../../support/explain/reasons.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { keepHistory } from '../../support/rows/history.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { put, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

describe('a message in hand', () => {
  test('is in flight in a worker, with its process and the session of its batch, and gone when it was cancelled', async ({
    queue,
    sluice,
  }) => {
    // Behind another one of its batch: a handler that runs alone would end at once when its message is cancelled.
    await put(sluice, queue, ['before it'], { priority: 0 })
    const { id, release } = await busyWorker(sluice, queue, { batchSize: 2 })
    const explain = () => sluice.operate.messages.explain(queue, id)
    await waitFor(async () => (await explain()).headline.reason === 'in_flight', { what: 'the record of the batch' })
    const [worker] = await sluice.operate.workers.list({ queue })
    const { headline, others } = await explain()
    expect(headline).toMatchObject({
      reason: 'in_flight',
      explanation: expect.stringContaining(`(process ${process.pid} on `),
      since: expect.any(Date),
      remedy: `npx sluice message cancel ${queue} ${id}`,
      details: { worker: worker?.name, workerPid: process.pid, attempt: 1, application: 'sluice' },
    })
    expect(others).toEqual([])
    const known = await sluice.operate.messages.status(queue, id)
    expect(headline.details.pid).toBe(known.lockedBy)
    await sluice.operate.messages.cancel(queue, id)
    expect(words(await explain())).toEqual(['in_flight', 'cancel_asked'])
    release()
    await waitFor(async () => (await explain()).headline.reason === 'not_found', { what: 'the message to be removed' })
  })

  test('is leased by a worker until an instant, and gone when it was handled', async ({ queue, sluice }) => {
    const { id, release } = await busyWorker(sluice, queue, { mode: 'leased', lease: '1m' })
    const { headline, others } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'leased',
      explanation: expect.stringMatching(
        /^Worker ".+" \(process \d+ on .+\) has it under a lease for another 5\ds: attempt 1\.$/,
      ),
      until: expect.any(Date),
      details: { workerAlive: true, workerPid: process.pid },
    })
    expect(others).toEqual([])
    release()
    await waitFor(async () => words(await sluice.operate.messages.explain(queue, id))[0] === 'not_found', {
      what: 'the message to be handled',
    })
  })

  test('is in a claim, and due when that is released', async ({ queue, sluice }) => {
    await put(sluice, queue, [1, 2])
    const claim = await sluice.claim(queue, { limit: 2, lease: '1m' })
    const id = claim!.messages[0]!.id
    expect((await sluice.operate.messages.explain(queue, id)).headline).toMatchObject({
      reason: 'claimed',
      explanation: expect.stringContaining('with 2 messages in the claim'),
      until: claim!.expiresAt,
      remedy: `npx sluice claims release ${queue} ${claim!.id}`,
    })
    await claim!.release()
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
  })

  test('is locked by a session that no worker has recorded, and is not when that rolls back', async ({
    database,
    queue,
    sluice,
  }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const session = await sessionOf(database, 'by hand')
    await session.query('BEGIN')
    const { rows } = await session.query(
      'SELECT pg_backend_pid() AS pid FROM sluice.message WHERE id = $1 FOR UPDATE',
      [id],
    )
    const { headline, others } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'locked',
      explanation: expect.stringMatching(
        /It is server process \d+ \(by hand, user postgres\), idle in transaction for .+, in a transaction for .+\.$/,
      ),
      since: expect.any(Date),
      remedy: `SELECT pg_terminate_backend(${rows[0].pid});`,
      details: { pid: rows[0].pid, application: 'by hand', state: 'idle in transaction' },
    })
    expect(others).toEqual([])
    await session.query('ROLLBACK')
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
  })

  test('was recorded by a worker that is gone', async ({ database, queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const session = await sessionOf(database, 'a worker')
    const execute = executeOn(session)
    const identity = { name: 'lost', host: 'there', pid: 1, version: '0' }
    const worker = await workerIdOf(execute, identity)
    await registerWorker(execute, worker, identity, [queue])
    await recordBatches(execute, worker, [], [{ id: 1, queue, messageIds: [id], attempts: [] }])
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [id])
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['in_flight'])
    await session.end()
    await waitFor(async () => words(await sluice.operate.messages.explain(queue, id)).includes('worker_gone'), {
      what: 'the server to notice',
    })
    const explanation = await sluice.operate.messages.explain(queue, id)
    expect(words(explanation)).toEqual(['no_worker', 'worker_gone'])
    expect(explanation.headline.explanation).toContain('Worker "lost", which did, was last seen ')
  })
})

describe('a message that is not due', () => {
  test('is scheduled, and due after run-now', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1], { delay: '1h' })
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'scheduled',
      explanation: expect.stringMatching(/^It has not been tried, and is due in 59m \d+s\.$/),
      remedy: `npx sluice message run-now ${queue} ${id}`,
    })
    expect(headline.until?.getTime()).toBeGreaterThan(Date.now())
    await sluice.operate.messages.runNow(queue, id)
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
  })

  test('is tried again after its last error', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1], { maxAttempts: 5 })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h', error: 'the shop\nis closed' }))
      .runOnce()
    const explanation = await sluice.operate.messages.explain(queue, id)
    expect(explanation.headline).toMatchObject({
      reason: 'retrying',
      explanation: expect.stringMatching(
        /^Attempt 1 of 5 failed \d+m?s ago: "the shop is closed"\. It is tried again in (?:1h|59m \d+s)\.$/,
      ),
      details: { attempt: 1, maxAttempts: 5 },
      remedy: `npx sluice message run-now ${queue} ${id}`,
    })
  })

  test('and has failed three times may be one that is to be cancelled, and so may that which a key waits for', async ({
    database,
    queue,
    sluice,
  }) => {
    const [first = '', second = ''] = await put(sluice, queue, [1, 2], { orderingKey: 'k', maxAttempts: 9 })
    await sluice
      .pipeline(queue)
      .handle(() => retryLater({ after: '1h', error: 'no' }))
      .runOnce()
    const explain = (id: string) => sluice.operate.messages.explain(queue, id)
    await database.sql('UPDATE sluice.message SET attempt = 2 WHERE id = $1', [first])
    const once = `npx sluice message run-now ${queue} ${first}`
    expect((await explain(first)).headline.remedy).toBe(once)
    await database.sql('UPDATE sluice.message SET attempt = 3 WHERE id = $1', [first])
    const both = `${once} # or, if it cannot succeed: npx sluice message cancel ${queue} ${first}`
    expect((await explain(first)).headline.remedy).toBe(both)
    expect(reasonOf(await explain(second), 'held').remedy).toBe(both)
  })

  test('has expired, while one that lives longer has not', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1], { ttl: 1 })
    const [other = ''] = await put(sluice, queue, [1], { ttl: '1h' })
    await waitFor(async () => words(await sluice.operate.messages.explain(queue, id))[0] === 'expired', {
      what: 'its end',
    })
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['expired'])
    expect(words(await sluice.operate.messages.explain(queue, other))).not.toContain('expired')
  })
})

describe('a message whose queue', () => {
  test('is paused names who paused it and why, and does not when it is resumed', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    await sluice.operate.queues.pause(queue, { by: 'ada', reason: 'rollout' })
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'paused',
      explanation: expect.stringMatching(/ was paused \d+m?s ago by "ada": "rollout"\.$/),
      details: { pausedBy: 'ada', pauseReason: 'rollout' },
      remedy: `npx sluice queue resume ${queue}`,
    })
    await sluice.operate.queues.resume(queue)
    expect(words(await sluice.operate.messages.explain(queue, id))).not.toContain('paused')
  })

  test('has no worker names the queue that was meant, and not where a worker consumes it', async ({
    database,
    queue,
    sluice,
  }) => {
    await busyWorker(sluice, `${queue}.reports`)
    const [id = ''] = await put(sluice, `${queue}.reprots`, [1])
    const explain = () => sluice.operate.messages.explain(`${queue}.reprots`, id)
    const isKnown = async () => (await explain()).headline.details.nearest === `${queue}.reports`
    await waitFor(isKnown, { what: 'the worker to have written down its queues' })
    const { headline } = await explain()
    expect(headline).toMatchObject({
      reason: 'no_worker',
      remedy: `npx sluice queue move ${queue}.reprots ${queue}.reports`,
    })
    expect(headline.explanation).toContain(`Did you mean "${queue}.reports"? A worker consumes that.`)
    const [far = ''] = await put(sluice, `${queue}.something.else`, [1])
    expect((await sluice.operate.messages.explain(`${queue}.something.else`, far)).headline.remedy).toBe(
      'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it',
    )
    await setQueueColumns(database, `${queue}.reprots`, { max_attempts: 3 })
    expect((await explain()).headline.remedy).toBe(
      'node worker.ts # or npx sluice work ./worker.ts, with a pipeline for it',
    )
    const [right = ''] = await put(sluice, `${queue}.reports`, [1])
    expect(words(await sluice.operate.messages.explain(`${queue}.reports`, right))).not.toContain('no_worker')
  })

  test('has its limit in flight names who has it, and not when one is free', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    const [, , third = ''] = await put(sluice, queue, [1, 2, 3])
    const claim = await sluice.claim(queue, { limit: 2 })
    const limit = reasonOf(await sluice.operate.messages.explain(queue, third), 'queue_limit')
    expect(limit).toMatchObject({
      explanation: `Queue "${queue}" has its limit of 2 messages in flight: claim ${claim!.id} has 2.`,
      details: { concurrency: 2, taken: 2, holders: [{ holder: `claim ${claim!.id}`, count: 2 }] },
      remedy: `npx sluice queue set ${queue} --concurrency 4`,
    })
    await claim!.settle(claim!.messages[0]!)
    expect(words(await sluice.operate.messages.explain(queue, third))).not.toContain('queue_limit')
  })

  test('has a worker that has its limit in a transaction says so', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 1 })
    await busyWorker(sluice, queue)
    const [id = ''] = await put(sluice, queue, [1])
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({ reason: 'queue_limit', details: { concurrency: 1, taken: 1 } })
    expect(headline.explanation).toMatch(/: server process \d+ has 1\.$/)
  })

  test('has the limit of one tenant in flight says so of that tenant alone', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { tenant_concurrency: 1 })
    const [, second = ''] = await put(sluice, queue, [1, 2], { tenant: 'acme' })
    const claim = await sluice.claim(queue, { limit: 1 })
    const [other = ''] = await put(sluice, queue, [3], { tenant: 'modest' })
    expect(reasonOf(await sluice.operate.messages.explain(queue, second), 'tenant_limit').explanation).toBe(
      `Tenant "acme" has its limit of 1 message in flight: claim ${claim!.id} has 1.`,
    )
    expect(words(await sluice.operate.messages.explain(queue, other))).not.toContain('tenant_limit')
  })

  test('has used its rate says when the next token comes, and not with tokens left', async ({
    database,
    queue,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { rate: 2, rate_ms: 3_600_000, tenant_rate: 1, tenant_rate_ms: 3_600_000 })
    const [, second = '', third = ''] = await put(sluice, queue, [1, 2, 3], { tenant: 'acme' })
    await sluice.claim(queue, { limit: 1 })
    const one = await sluice.operate.messages.explain(queue, second)
    expect(words(one)).not.toContain('queue_rate')
    expect(reasonOf(one, 'tenant_rate')).toMatchObject({
      explanation: expect.stringMatching(
        /^Tenant "acme" may begin 1 message in 1h, and has begun them: the next token comes in 59m \d+s\.$/,
      ),
      until: expect.any(Date),
      remedy: `npx sluice queue set ${queue} --tenant-rate 2/3600000ms`,
    })
    await database.sql('UPDATE sluice.queue SET tenant_rate = NULL, tenant_rate_ms = NULL WHERE queue = $1', [queue])
    await sluice.claim(queue, { limit: 1 })
    expect(words(await sluice.operate.messages.explain(queue, third))).toContain('queue_rate')
  })
})

describe('a message with an ordering key', () => {
  test('is held by the one before it, with its error, and one of another key is not', async ({
    database,
    queue,
    sluice,
  }) => {
    const { same, other } = await keysOf(database)
    const [first = '', second = ''] = await put(sluice, queue, [1, 2], { orderingKey: same[0] })
    await sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
      .handle(() => {
        throw new Error('no card')
      })
      .runOnce()
    const [free = ''] = await put(sluice, queue, [3], { orderingKey: other })
    const held = reasonOf(await sluice.operate.messages.explain(queue, second), 'held')
    expect(held).toMatchObject({
      explanation: expect.stringMatching(
        new RegExp(
          `^Its ordering key "${same[0]}" waits for message ${first}, whose attempt 1 failed, and which is tried again in 59m \\d+s. Its error: "Error: no card"`,
        ),
      ),
      until: expect.any(Date),
      details: { message: first, attempt: 1 },
      remedy: `npx sluice message run-now ${queue} ${first}`,
    })
    expect(words(await sluice.operate.messages.explain(queue, first))[0]).toBe('retrying')
    expect(words(await sluice.operate.messages.explain(queue, free))).not.toContain('held')
  })

  test('waits for the one that is leased', async ({ queue, sluice }) => {
    const { id } = await busyWorker(sluice, queue, { mode: 'leased' }, { orderingKey: 'k' })
    const [second = ''] = await put(sluice, queue, [1], { orderingKey: 'k' })
    const { headline } = await sluice.operate.messages.explain(queue, second)
    expect(headline).toMatchObject({
      reason: 'held',
      details: { message: id },
      remedy: `npx sluice explain ${queue} ${id}`,
    })
    expect(headline.explanation).toContain('which is in flight under a lease')
  })

  test('whose slot a batch has names the batch and its message, and one of another slot does not', async ({
    database,
    queue,
    sluice,
  }) => {
    const { same, other, slot } = await keysOf(database)
    const { id } = await busyWorker(sluice, queue, {}, { orderingKey: same[0] })
    const [waiting = ''] = await put(sluice, queue, [1], { orderingKey: same[1] })
    const [free = ''] = await put(sluice, queue, [1], { orderingKey: other })
    await waitFor(async () => (await sluice.operate.messages.explain(queue, waiting)).headline.details.message === id, {
      what: 'the record of the batch',
    })
    const { headline } = await sluice.operate.messages.explain(queue, waiting)
    expect(headline).toMatchObject({
      reason: 'slot_busy',
      details: { slot, message: id, sameKey: false, application: 'sluice' },
    })
    expect(words(await sluice.operate.messages.explain(queue, free))).toEqual(['due_now'])
  })
})

describe('a message of a queue that is handled in order as a whole', () => {
  const ordered = { ordered: true, concurrency: 1, batchSize: 1 } as const

  test('waits for the batch that is in flight', async ({ queue, sluice }) => {
    const { id } = await busyWorker(sluice, queue, ordered, {})
    const [waiting = ''] = await put(sluice, queue, [1])
    const explain = () => sluice.operate.messages.explain(queue, waiting)
    await waitFor(async () => (await explain()).headline.details.message === id, { what: 'the record of the batch' })
    const { headline } = await explain()
    expect(headline).toMatchObject({ reason: 'slot_busy', details: { slot: 256, message: id } })
    expect(headline.explanation).toContain('A batch that keeps the order of the whole queue is in flight')
    expect(words(await sluice.operate.queues.explain(queue))).not.toContain('due_now')
  })

  test('waits for the one that has failed, and is behind it when that is due again', async ({ queue, sluice }) => {
    const [first = '', second = ''] = await put(sluice, queue, [1, 2])
    const retry = { kind: 'fixed', delay: '1h' } as const
    await sluice
      .pipeline(queue, { ...ordered, retry })
      .handle(() => raise('no card'))
      .runOnce()
    const held = reasonOf(await sluice.operate.messages.explain(queue, second), 'held')
    expect(held).toMatchObject({ details: { message: first }, remedy: `npx sluice message run-now ${queue} ${first}` })
    expect(held.explanation).toMatch(/^The queue is handled in order, and waits for message /)
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['no_worker', 'held'])
    await sluice.operate.messages.runNow(queue, first)
    expect(words(await sluice.operate.messages.explain(queue, second))).not.toContain('held')
  })
})

describe('a due message', () => {
  test('is behind those that go before it, and due now when it is the first', async ({ queue, sluice }) => {
    await busyWorker(sluice, queue)
    const ids = await put(sluice, queue, [1, 2, 3])
    const third = await sluice.operate.messages.explain(queue, ids[2]!)
    expect(third.headline).toMatchObject({ reason: 'behind', details: { count: 2, more: false } })
    expect(third.headline.explanation).toMatch(/^It has been due for \d+m?s, and 2 due messages wait before it\.$/)
    expect(words(await sluice.operate.messages.explain(queue, ids[0]!))).toEqual(['due_now'])
  })

  test('is behind more than 1,000, and those of a lower priority number are among them', async ({
    database,
    queue,
    sluice,
  }) => {
    await busyWorker(sluice, queue)
    await database.sql(
      `INSERT INTO sluice.message (queue, priority, payload) SELECT $1, 1, '{}' FROM generate_series(1, 1500)`,
      [queue],
    )
    const [id = ''] = await put(sluice, queue, [1])
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({ reason: 'behind', details: { count: 1_001, more: true } })
    expect(headline.explanation).toContain('more than 1,000 due messages go before it')
  })

  test('has evidence of a crash, and one without has none', async ({ database, queue, sluice }) => {
    await busyWorker(sluice, queue)
    const [id = '', other = ''] = await put(sluice, queue, [1, 2])
    await database.sql(`SELECT sluice_private.record_crash($1, $2, 4711, 1, 'vanished', 'w1', false)`, [queue, id])
    const explanation = await sluice.operate.messages.explain(queue, id)
    expect(reasonOf(explanation, 'crash_evidence').explanation).toMatch(
      /^1 attempt was left unsettled: \d+m?s ago worker "w1" vanished\. 1 attempt has failed so far\.$/,
    )
    expect(words(await sluice.operate.messages.explain(queue, other))).not.toContain('crash_evidence')
  })
})

describe('a message that is not there', () => {
  test('is a dead letter, and is not when it was redriven', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    await sluice
      .pipeline(queue)
      .handle(() => deadLetter('card expired'))
      .runOnce()
    expect((await sluice.operate.messages.explain(queue, id)).headline).toMatchObject({
      reason: 'dead',
      explanation: expect.stringMatching(/^It became a dead letter \d+m?s ago: card expired\./),
      remedy: `npx sluice dead redrive ${queue} --id ${id}`,
    })
    await sluice.operate.deadLetters.redrive({ queue, ids: [id] })
    expect(words(await sluice.operate.messages.explain(queue, id))).not.toContain('dead')
  })

  test('has succeeded, where its queue keeps its history, and is not found where it does not', async ({
    database,
    queue,
    sluice,
  }) => {
    await keepHistory(database, queue)
    await setQueueColumns(database, `${queue}.plain`, { max_attempts: 3 })
    const [kept = ''] = await put(sluice, queue, [1])
    const [gone = ''] = await put(sluice, `${queue}.plain`, [1])
    await sluice.pop(queue)
    await sluice.pop(`${queue}.plain`)
    expect((await sluice.operate.messages.explain(queue, kept)).headline).toMatchObject({
      reason: 'completed',
      explanation: expect.stringMatching(/^It succeeded \d+m?s ago, in attempt 1, by a pop\.$/),
    })
    const { headline } = await sluice.operate.messages.explain(`${queue}.plain`, gone)
    expect(headline).toMatchObject({ reason: 'not_found', remedy: `npx sluice queue set ${queue}.plain --history 7d` })
    expect((await sluice.operate.messages.explain(`${queue}.plian`, gone)).headline).toMatchObject({
      reason: 'not_found',
      explanation: expect.stringContaining(`Did you mean "${queue}.plain"?`),
      remedy: `npx sluice explain ${queue}.plain ${gone}`,
    })
  })

  test('has never existed, or is in another queue', async ({ queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    expect(words(await sluice.operate.messages.explain(queue, '999999999999'))).toEqual(['never_existed'])
    expect((await sluice.operate.messages.explain(`${queue}.x`, id)).headline).toMatchObject({
      reason: 'other_queue',
      remedy: `npx sluice explain ${queue} ${id}`,
    })
  })

  test('may be in a transaction that is open: its session is named, and not after the COMMIT', async ({
    database,
    queue,
    sluice,
  }) => {
    const session = await sessionOf(database, 'the shop')
    await session.query('BEGIN')
    const { rows } = await session.query(`SELECT sluice.enqueue($1, '{}')::text AS id, pg_backend_pid() AS pid`, [
      queue,
    ])
    const explanation = await sluice.operate.messages.explain(queue, rows[0].id)
    expect(words(explanation)).toEqual(['not_committed', 'not_found'])
    expect(explanation.headline).toMatchObject({
      since: expect.any(Date),
      details: { pid: rows[0].pid, application: 'the shop' },
    })
    await session.query('COMMIT')
    expect(words(await sluice.operate.messages.explain(queue, rows[0].id))).toEqual(['no_worker'])
  })
})
