import { describe, expect, onTestFinished } from 'vitest'
import { busyWorker, reasonOf, sessionOf, words } from '../../support/explain/reasons.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import { register } from '../../support/rows/operations.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { deferred, waitFor } from '../../support/wait.ts'

const RETRY = { kind: 'fixed', delay: '1h' } as const

describe('a dedupe key', () => {
  test('is taken by a message, whose reasons follow, and free when that is gone', async ({ queue, sluice }) => {
    const { id } = await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: "it's" }, delay: '1h' })
    const explain = () => sluice.operate.messages.explain(queue, { dedupeKey: "it's" })
    const taken = await explain()
    expect(words(taken)).toEqual(['key_taken', 'scheduled', 'no_worker'])
    expect(taken.headline).toMatchObject({
      explanation: `Message ${id} has the dedupe key "it's".`,
      details: { message: id },
      remedy: `npx sluice message cancel ${queue} ${id}`,
    })
    await sluice.operate.messages.cancel(queue, id)
    expect(words(await explain())).toEqual(['key_free'])
  })

  test('that begins with - is freed by the remedy, as the command line reads it', async ({
    database,
    queue,
    sluice,
  }) => {
    await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: '-y', for: '1h' } })
    await sluice.pop(queue)
    const { headline } = await sluice.operate.messages.explain(queue, { dedupeKey: '-y' })
    expect(headline.remedy).toBe(`npx sluice message free-key ${queue} -- '-y'`)
    const command = ['message', 'free-key', queue, '--', '-y']
    expect(await runCli(command, { DATABASE_URL: database.url })).toMatchObject({ code: 0, stdout: 'It is free.\n' })
  })

  test('is kept after success until an instant, and free after free-key', async ({ queue, sluice }) => {
    const options = { dedupe: { key: "it's", for: '1h' } } as const
    const { id } = await sluice.enqueue(sluice.ownTransaction, queue, 1, options)
    await sluice.pop(queue)
    const explain = () => sluice.operate.messages.explain(queue, { dedupeKey: "it's" })
    const { headline } = await explain()
    expect(headline).toMatchObject({
      reason: 'key_kept',
      until: expect.any(Date),
      details: { message: id },
      remedy: `npx sluice message free-key ${queue} 'it'"'"'s'`,
    })
    expect(headline.explanation).toMatch(
      / has succeeded, and its dedupe key "it's" stays taken for another 59m \d+s\.$/,
    )
    await sluice.operate.messages.freeKey(queue, "it's")
    expect(words(await explain())).toEqual(['key_free'])
  })

  test('is locked by a producer that has not committed, and by none afterwards', async ({
    database,
    queue,
    sluice,
  }) => {
    const send = `SELECT sluice.enqueue_deduped($1, '{}', 'k', on_duplicate => 'update')`
    await database.sql(send, [queue])
    const session = await sessionOf(database, 'the shop')
    await session.query('BEGIN')
    await session.query(send, [queue])
    const explain = () => sluice.operate.messages.explain(queue, { dedupeKey: 'k' })
    expect(reasonOf(await explain(), 'key_locked').details).toMatchObject({ application: 'the shop' })
    await session.query('ROLLBACK')
    expect(words(await explain())).not.toContain('key_locked')
  })

  test('that is free may be taken by an open transaction, which is named', async ({ database, queue, sluice }) => {
    const session = await sessionOf(database, 'the shop')
    await session.query('BEGIN')
    await session.query(`SELECT sluice.enqueue_deduped($1, '{}', 'k')`, [queue])
    const explain = () => sluice.operate.messages.explain(queue, { dedupeKey: 'k' })
    expect(words(await explain())).toEqual(['key_free', 'not_committed'])
    await session.query('COMMIT')
    expect(words(await explain())[0]).toBe('key_taken')
  })

  test('of a dead letter is free, and says that the message is dead', async ({ queue, sluice }) => {
    await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: 'k' }, maxAttempts: 1 })
    await sluice
      .pipeline(queue)
      .handle(() => raise('no'))
      .runOnce()
    expect(words(await sluice.operate.messages.explain(queue, { dedupeKey: 'k' }))).toEqual(['key_free', 'dead'])
  })
})

describe('a queue', () => {
  test('that nobody knows may be a typing mistake, and one with settings is empty', async ({
    database,
    queue,
    sluice,
  }) => {
    await put(sluice, `${queue}.reports`, [1])
    expect((await sluice.operate.queues.explain(`${queue}.reprots`)).headline).toMatchObject({
      reason: 'unknown_queue',
      details: { nearest: `${queue}.reports` },
      remedy: `npx sluice explain ${queue}.reports`,
    })
    await setQueueColumns(database, `${queue}.reprots`, { max_attempts: 3 })
    expect(words(await sluice.operate.queues.explain(`${queue}.reprots`))).toEqual(['empty'])
  })

  test('that is a stream, or nearly the queue of a group, names the group', async ({ queue, sluice }) => {
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'billing')
    for (const name of [queue, `${queue}:biling`]) {
      expect((await sluice.operate.queues.explain(name)).headline).toMatchObject({
        reason: 'unknown_queue',
        remedy: `npx sluice explain ${queue}:billing`,
      })
    }
    expect(words(await sluice.operate.queues.explain(`${queue}:billing`))).toEqual(['no_worker', 'empty'])
  })

  test('is paused and has no worker, and moves when both are mended', async ({ queue, sluice }) => {
    await put(sluice, queue, [1, 2])
    await sluice.operate.queues.pause(queue, { by: 'ada' })
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['paused', 'no_worker', 'due_now'])
    await sluice.operate.queues.resume(queue)
    await busyWorker(sluice, queue)
    const both = async () => words(await sluice.operate.queues.explain(queue))
    await waitFor(async () => (await both()).includes('in_flight'), { what: 'the record of the batch' })
    expect(await both()).toEqual(['due_now', 'in_flight'])
  })

  test('has nothing due says when the next message falls due', async ({ queue, sluice }) => {
    await put(sluice, queue, [1], { delay: '2h' })
    await put(sluice, queue, [1], { delay: '1h', orderingKey: 'k' })
    const scheduled = reasonOf(await sluice.operate.queues.explain(queue), 'scheduled')
    expect(scheduled.explanation).toMatch(/^The next message falls due in 59m \d+s\.$/)
    await put(sluice, queue, [1])
    expect(words(await sluice.operate.queues.explain(queue))).not.toContain('scheduled')
  })

  test('has held keys, busy slots and locked messages, and names one of each', async ({ database, queue, sluice }) => {
    const { same, other } = await keysOf(database)
    const [first = ''] = await put(sluice, queue, [1, 2], { orderingKey: same[0] })
    await sluice
      .pipeline(queue, { retry: RETRY, batchSize: 1 })
      .handle(() => raise('no card'))
      .runOnce()
    const before = await sluice.operate.queues.explain(queue)
    expect(reasonOf(before, 'held')).toMatchObject({
      explanation: expect.stringMatching(
        new RegExp(
          `^Ordering key "${same[0]}" waits for message ${first}, whose attempt 1 failed, and which is tried again in 59m \\d+s\\. Its error: "no card"\\. 1 due message of the key waits\\.$`,
        ),
      ),
      details: { slots: 1, message: first, orderingKey: same[0], count: 1, more: false },
      remedy: `npx sluice message run-now ${queue} ${first}`,
    })
    expect(words(before)).not.toContain('slot_busy')
    await busyWorker(sluice, queue, {}, { orderingKey: other })
    const [locked = ''] = await put(sluice, queue, [1])
    const session = await sessionOf(database, 'by hand')
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.message WHERE id = $1 FOR UPDATE', [locked])
    const explanation = await sluice.operate.queues.explain(queue)
    expect(reasonOf(explanation, 'slot_busy').details).toMatchObject({
      slots: expect.any(Number),
      application: 'sluice',
    })
    expect(reasonOf(explanation, 'locked').details).toMatchObject({
      locked: 1,
      message: locked,
      application: 'by hand',
    })
    expect(words(explanation)).not.toContain('due_now')
  })

  test('has keys held in five slots names three, and how many more there are', async ({ database, queue, sluice }) => {
    const keys = Array.from({ length: 40 }, (_, at) => `key ${at}`)
    for (const orderingKey of keys) await put(sluice, queue, [1, 2], { orderingKey })
    await sluice
      .pipeline(queue, { retry: RETRY, batchSize: 100 })
      .handle(() => raise('no card'))
      .runOnce()
    const slots = await database.sql('SELECT DISTINCT slot FROM sluice.message WHERE queue = $1', [queue])
    const { headline, others } = await sluice.operate.queues.explain(queue)
    const held = [headline, ...others].filter(({ reason }) => reason === 'held')
    expect(held).toHaveLength(3)
    expect(held.map(({ details }) => details.count)).toEqual([1, 1, 1])
    expect(held[0]?.explanation).toMatch(/1 due message of the key waits\.$/)
    expect(held[2]?.explanation).toContain(`and keys in ${slots.length - 3} other slots are held as well.`)
  })

  test('has its limits reached, of the queue and of tenants', async ({ database, queue, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 2, tenant_concurrency: 1 })
    await put(sluice, queue, [1, 2], { tenant: 'acme' })
    const claim = await sluice.claim(queue, { limit: 1 })
    const one = await sluice.operate.queues.explain(queue)
    expect(words(one)).toContain('tenant_limit')
    expect(words(one)).not.toContain('queue_limit')
    // The other one of the tenant is due, and no claim takes it.
    expect(words(one)).toEqual(['no_worker', 'tenant_limit', 'due_now', 'in_flight'])
    expect(reasonOf(one, 'due_now')).toMatchObject({
      explanation: expect.stringMatching(
        /^1 message is among the first due, the oldest for .+, and waits for the limit of its tenant\.$/,
      ),
      remedy: null,
    })
    expect(reasonOf(one, 'in_flight').explanation).toContain(
      `1 message is in flight: the oldest with claim ${claim!.id}, for `,
    )
    await put(sluice, queue, [4], { tenant: 'acme' })
    await put(sluice, queue, [3], { tenant: 'b' })
    const all = await sluice.operate.queues.explain(queue)
    const due = [all.headline, ...all.others].filter(({ reason }) => reason === 'due_now')
    expect(due.map(({ details }) => details.due ?? details.limited)).toEqual([1, 2])
    const second = await sluice.claim(queue, { limit: 1 })
    expect(words(await sluice.operate.queues.explain(queue))).toContain('queue_limit')
    await second!.release()
    expect(words(await sluice.operate.queues.explain(queue))).not.toContain('queue_limit')
  })

  test('has dead letters, and says none where there are none', async ({ queue, sluice }) => {
    await put(sluice, queue, [1], { maxAttempts: 1 })
    expect(words(await sluice.operate.queues.explain(queue))).not.toContain('dead')
    await sluice
      .pipeline(queue)
      .handle(() => raise('no'))
      .runOnce()
    expect(reasonOf(await sluice.operate.queues.explain(queue), 'dead')).toMatchObject({
      explanation: '1 dead letter is not tried again.',
      remedy: `npx sluice dead list ${queue}`,
    })
  })
})

describe('an event of a group', () => {
  const group = async (database: TestDatabase, stream: string, onFailure = 'defer') => {
    await database.sql('SELECT sluice.create_stream($1, 1)', [stream])
    await database.sql(`SELECT sluice.create_group($1, 'all', '{0}')`, [stream])
    await database.sql(`SELECT sluice.group_set($1, 'all', on_failure => $2)`, [stream, onFailure])
  }
  const append = (database: TestDatabase, stream: string, key: string | null = null) =>
    database.sql<{ at: string }>(`SELECT sluice.append($1, '{}', $2)::text AS at`, [stream, key])

  test('is behind others with no worker, handled afterwards, and never existed before', async ({
    database,
    queue,
    sluice,
  }) => {
    await group(database, queue)
    const explain = (at: number) => sluice.groups.explain(queue, 'all', at)
    expect(words(await explain(1))).toEqual(['never_existed'])
    await append(database, queue)
    await append(database, queue)
    expect(words(await explain(1))).toEqual(['no_worker'])
    expect(words(await explain(2))).toEqual(['no_worker', 'behind'])
    await sluice
      .pipeline(queue, { group: 'all' })
      .handle(() => undefined)
      .runOnce()
    await waitFor(async () => words(await explain(2))[0] === 'handled', { what: 'the event to be handled' })
  })

  test('is in flight in a worker, and the next one is behind it', async ({ database, queue, sluice }) => {
    await group(database, queue)
    const [began, go] = [deferred(), deferred()]
    onTestFinished(() => go.resolve())
    sluice
      .pipeline(queue, { group: 'all', batchSize: 1 })
      .handle(async () => {
        began.resolve()
        await go.promise
      })
      .start()
    await append(database, queue)
    await began.promise
    await append(database, queue)
    await waitFor(async () => words(await sluice.groups.explain(queue, 'all', 1))[0] === 'in_flight', {
      what: 'the record',
    })
    expect((await sluice.groups.explain(queue, 'all', 1)).headline.details).toMatchObject({ workerPid: process.pid })
    expect(words(await sluice.groups.explain(queue, 'all', 2))).toEqual(['partition_busy', 'behind'])
  })

  test('waits where its group is paused, and is due now when that is resumed', async ({ database, queue, sluice }) => {
    await group(database, queue)
    await append(database, queue)
    await sluice.groups.pause(queue, 'all', { by: 'ada' })
    const { headline } = await sluice.groups.explain(queue, 'all', 1)
    expect(headline).toMatchObject({ reason: 'paused', remedy: `npx sluice group resume ${queue} all` })
    await sluice.groups.resume(queue, 'all')
    expect(words(await sluice.groups.explain(queue, 'all', 1))).toEqual(['no_worker'])
  })

  test('stops its partition where it has failed for good, and goes on after a retry', async ({
    database,
    queue,
    sluice,
  }) => {
    await group(database, queue, 'stop')
    await append(database, queue)
    await append(database, queue)
    await sluice
      .pipeline(queue, { group: 'all', maxAttempts: 1 })
      .handle(() => raise('no card'))
      .runOnce()
    const explanation = await sluice.groups.explain(queue, 'all', 2)
    expect(explanation.headline).toMatchObject({
      reason: 'partition_stopped',
      details: { partition: 0, position: 1, attempt: 1 },
      remedy: `npx sluice group retry ${queue} all --partition 0`,
    })
    expect(explanation.headline.explanation).toContain(
      `waits for event ${queue}/1, whose attempt 1 failed: "failed 1 of 1 attempts: no card`,
    )
    expect(words(await sluice.operate.queues.explain(`${queue}:all`))).toContain('partition_stopped')
    await sluice.groups.retry(queue, 'all')
    expect(words(await sluice.groups.explain(queue, 'all', 2))).not.toContain('partition_stopped')
  })

  test('is tried again later as a message of its queue', async ({ database, queue, sluice }) => {
    await group(database, queue)
    await append(database, queue, 'k')
    await sluice
      .pipeline(queue, { group: 'all', retry: RETRY })
      .handle(() => raise('no card'))
      .runOnce()
    const explanation = await sluice.groups.explain(queue, 'all', 1)
    expect(explanation.headline.reason).toBe('retrying')
    const id = await sluice.groups.messageOf(queue, 'all', 1)
    expect(reasonOf(explanation, 'deferred').details).toEqual({ message: id })
    // The group has read all events, and one of them waits: that comes first.
    await append(database, queue, 'k')
    await sluice
      .pipeline(queue, { group: 'all', retry: RETRY })
      .handle(() => undefined)
      .runOnce()
    const ofGroup = words(await sluice.operate.queues.explain(`${queue}:all`)).filter((word) => word !== 'no_worker')
    expect(ofGroup[0]).toBe('held')
    expect(ofGroup.at(-1)).toBe('empty')
  })

  test('is behind an append that is open, which is named, and not when that has ended', async ({
    database,
    queue,
    sluice,
  }) => {
    await group(database, queue)
    const session = await sessionOf(database, 'the shop')
    await session.query('BEGIN')
    await session.query(`SELECT sluice.append($1, '{}')`, [queue])
    const ofGroup = await sluice.operate.queues.explain(`${queue}:all`)
    expect(words(ofGroup)).toEqual(['no_worker', 'open_append', 'empty'])
    expect(reasonOf(ofGroup, 'open_append').remedy).toBe(null)
    expect(reasonOf(ofGroup, 'empty').explanation).toMatch(/ that are committed\.$/)
    await append(database, queue)
    const waiting = await sluice.groups.explain(queue, 'all', 2)
    expect(waiting.headline).toMatchObject({
      reason: 'open_append',
      details: { application: 'the shop', partition: 0 },
    })
    expect(words(await sluice.groups.explain(queue, 'all', 1))).toEqual(['not_committed', 'not_found'])
    expect(words(await sluice.operate.queues.explain(`${queue}:all`))).toContain('open_append')
    await session.query('ROLLBACK')
    expect(words(await sluice.groups.explain(queue, 'all', 2))).not.toContain('open_append')
    expect(words(await sluice.groups.explain(queue, 'all', 1))).toEqual(['not_found'])
  })

  test('has been trimmed, and its group has lost it', async ({ database, queue, sluice }) => {
    await group(database, queue)
    await append(database, queue)
    await append(database, queue)
    await database.sql('SELECT sluice.trim_stream($1, 2, force => true)', [queue])
    expect(words(await sluice.groups.explain(queue, 'all', 2))[0]).toBe('lost_events')
    expect(words(await sluice.operate.queues.explain(`${queue}:all`))).toContain('lost_events')
    await sluice.groups.seek(queue, 'all', 'start')
    expect(words(await sluice.groups.explain(queue, 'all', 2))).toEqual(['no_worker'])
    expect(words(await sluice.groups.explain(queue, 'all', 1))).toEqual(['trimmed'])
  })

  test('of an unknown stream or group is refused by name', async ({ database, queue, sluice }) => {
    await expect(sluice.groups.explain(queue, 'all', 1)).rejects.toMatchObject({ code: 'STREAM_UNKNOWN' })
    await group(database, queue)
    await expect(sluice.groups.explain(queue, 'none', 1)).rejects.toMatchObject({ code: 'GROUP_UNKNOWN' })
  })
})

describe('a schedule', () => {
  test('is unknown, not planned without a worker, and not due with one', async ({ queue, sluice }) => {
    const name = `${queue}.nightly`
    await sluice.schedules.set(name, { every: '1d', queue, payload: {} })
    expect((await sluice.schedules.explain(`${queue}.nigthly`)).headline).toMatchObject({
      reason: 'not_found',
      remedy: `npx sluice explain --schedule ${name}`,
    })
    const { headline } = await sluice.schedules.explain(name)
    expect(headline).toMatchObject({ reason: 'not_due', until: expect.any(Date) })
    await sluice.schedules.pause(name, { by: 'ada', reason: 'rollout' })
    expect((await sluice.schedules.explain(name)).headline).toMatchObject({
      reason: 'paused',
      explanation: expect.stringContaining('by "ada": "rollout".'),
      remedy: `npx sluice schedule resume ${name}`,
    })
    await sluice.schedules.resume(name)
    expect(words(await sluice.schedules.explain(name))).toEqual(['no_worker', 'not_planned'])
  })

  test('is overdue where no worker looks, and says so no more when one has', async ({ database, queue, sluice }) => {
    const name = `${queue}.hourly`
    await sluice.schedules.set(name, { every: '1h', queue, payload: {}, grace: '1h', missed: 'last' })
    await database.sql(
      `UPDATE sluice.schedule SET next_at = date_trunc('milliseconds', clock_timestamp()) - interval '10 minutes' WHERE name = $1`,
      [name],
    )
    expect(words(await sluice.schedules.explain(name))).toEqual(['no_worker', 'overdue'])
    sluice
      .pipeline(queue)
      .handle(() => undefined)
      .start()
    await waitFor(async () => words(await sluice.schedules.explain(name)).includes('enqueued'), {
      what: 'the occurrence',
    })
    expect(words(await sluice.schedules.explain(name))[0]).toBe('not_due')
  })

  test('is overdue where all workers are silent, which are named first', async ({ database, queue, sluice }) => {
    const [name, worker] = [`${queue}.hourly`, `${queue} silent`]
    await sluice.schedules.set(name, { every: '1h', queue, payload: {}, grace: '1h', missed: 'last' })
    await register(database, { name: worker, queues: [`${queue}.other`], alive: true })
    await database.sql(`UPDATE sluice.worker SET seen_at = clock_timestamp() - interval '5 minutes' WHERE name = $1`, [
      worker,
    ])
    await database.sql(
      `UPDATE sluice.schedule SET next_at = date_trunc('milliseconds', clock_timestamp()) - interval '10 minutes' WHERE name = $1`,
      [name],
    )
    // The workers of the tests before may be alive for a moment.
    await waitFor(async () => words(await sluice.schedules.explain(name))[0] === 'worker_stale', { what: 'the others' })
    const { headline, others } = await sluice.schedules.explain(name)
    expect(others.map(({ reason }) => reason)).toEqual(['overdue'])
    expect(headline.remedy).toBe('kill -9 1 # on host')
  })

  test('of three letters, two of which are swapped, is nearly another one', async ({ database, sluice }) => {
    await sluice.schedules.set('bad', { every: '1d', queue: 'reports', payload: {} })
    onTestFinished(() => database.sql(`DELETE FROM sluice.schedule WHERE name = 'bad'`).then(() => undefined))
    expect((await sluice.schedules.explain('bda')).headline.details).toMatchObject({ nearest: 'bad' })
  })

  test('must not overlap its last message, and goes on when that is gone', async ({ queue, sluice }) => {
    const name = `${queue}.daily`
    await sluice.schedules.set(name, { every: '1d', queue, payload: {}, overlap: false })
    const id = await sluice.schedules.runNow(name)
    expect((await sluice.schedules.explain(name)).headline).toMatchObject({
      reason: 'overlap',
      remedy: `npx sluice explain ${queue} ${id}`,
    })
    await sluice.pop(queue)
    expect(words(await sluice.schedules.explain(name))).toEqual(['not_due', 'enqueued'])
  })

  test('is locked by a session, which is named', async ({ database, queue, sluice }) => {
    const name = `${queue}.locked`
    await database.sql(`SELECT sluice.schedule($1, $2, '{}', every => '1 day')`, [name, queue])
    const session = await sessionOf(database, 'by hand')
    await session.query('BEGIN')
    await session.query('SELECT FROM sluice.schedule WHERE name = $1 FOR UPDATE', [name])
    expect((await sluice.schedules.explain(name)).headline).toMatchObject({
      reason: 'locked',
      details: { application: 'by hand' },
    })
    await session.query('ROLLBACK')
    expect(words(await sluice.schedules.explain(name))).not.toContain('locked')
  })

  test('has failed with an error, has skipped occurrences, and has ended', async ({ database, queue, sluice }) => {
    const name = `${queue}.odd`
    await sluice.schedules.set(name, { every: '1d', queue, payload: {} })
    await database.sql(
      `SELECT sluice_private.schedule_failed($1, (SELECT revision FROM sluice.schedule WHERE name = $1), 'no such zone')`,
      [name],
    )
    expect((await sluice.schedules.explain(name)).headline).toMatchObject({
      reason: 'failed',
      details: { error: 'no such zone' },
    })
    await database.sql('UPDATE sluice.schedule SET error = NULL, skipped = 3, next_at = NULL WHERE name = $1', [name])
    expect(words(await sluice.schedules.explain(name))).toEqual(['ended', 'skipped'])
  })
})
