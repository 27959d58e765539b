import { describe, expect } from 'vitest'
import { busyWorker, openSession, reasonOf, sessionOf, words } from '../../support/explain/reasons.ts'
import { keysOf } from '../../support/rows/claim-session.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const LOCK = 'SELECT FROM sluice.message WHERE id = $1 FOR UPDATE'

describe('a message with an ordering key that a session has locked', () => {
  test('keeps the later ones of its key waiting, which name the session, and no other key', async ({
    database,
    queue,
    sluice,
  }) => {
    const { same } = await keysOf(database)
    const [first = '', second = ''] = await put(sluice, queue, [1, 2], { orderingKey: same[0] })
    const [other = ''] = await put(sluice, queue, [3], { orderingKey: same[1] })
    const { session, pid } = await openSession(database, 'by hand')
    await session.query(LOCK, [first])
    const explain = (id: string) => sluice.operate.messages.explain(queue, id)
    expect(reasonOf(await explain(first), 'locked').explanation).toContain(
      'claims pass it over, and the later messages of its ordering key. It is server process ',
    )
    expect(reasonOf(await explain(second), 'locked')).toMatchObject({
      explanation: expect.stringContaining(
        `A session has locked message ${first}, which its ordering key "${same[0]}"`,
      ),
      details: { message: first, pid, application: 'by hand' },
      remedy: `SELECT pg_terminate_backend(${pid});`,
    })
    expect(words(await explain(other))).toEqual(['no_worker'])
    await session.query('ROLLBACK')
    expect(words(await explain(second))).toEqual(['no_worker', 'behind'])
  })

  test('is not among those of its queue that are due and free, and the queue names the session', async ({
    database,
    queue,
    sluice,
  }) => {
    const { same } = await keysOf(database)
    const [first = ''] = await put(sluice, queue, [1, 2], { orderingKey: same[0] })
    const { session, pid } = await openSession(database, 'by hand')
    await session.query(LOCK, [first])
    const explained = await sluice.operate.queues.explain(queue)
    expect(words(explained)).toEqual(['no_worker', 'locked'])
    expect(reasonOf(explained, 'locked')).toMatchObject({
      explanation: expect.stringContaining(`message ${first}, for which all later ones of its ordering key wait.`),
      details: { locked: 1, message: first, application: 'by hand' },
      remedy: `SELECT pg_terminate_backend(${pid});`,
    })
    await put(sluice, queue, [3], { orderingKey: same[1] })
    expect(reasonOf(await sluice.operate.queues.explain(queue), 'due_now').details).toMatchObject({ due: 1 })
    await session.query('ROLLBACK')
    const free = await sluice.operate.queues.explain(queue)
    expect(words(free)).not.toContain('locked')
    expect(reasonOf(free, 'due_now').details).toMatchObject({ due: 3 })
  })
})

describe('a session that waits', () => {
  test('for a lock is followed to the session that has it', async ({ database, queue, sluice }) => {
    const [first = '', second = ''] = await put(sluice, queue, [1, 2], { orderingKey: 'k' })
    await sluice.operate.messages.reschedule(queue, second, { delay: 0 })
    await database.sql('INSERT INTO sluice.slot (queue, slot) SELECT queue, slot FROM sluice.message WHERE id = $1', [
      first,
    ])
    const { session, pid } = await openSession(database, 'by hand')
    await session.query(LOCK, [first])
    const claim = await openSession(database, 'a worker')
    await claim.session.query('SELECT FROM sluice.slot WHERE queue = $1 FOR NO KEY UPDATE', [queue])
    const claimed = claim.session.query(LOCK, [first])
    await untilWaiting(database, claim.pid)
    for (const explained of [
      await sluice.operate.messages.explain(queue, first),
      await sluice.operate.messages.explain(queue, second),
      await sluice.operate.queues.explain(queue),
    ]) {
      const busy = reasonOf(explained, 'slot_busy')
      expect(busy).toMatchObject({
        details: { pid: claim.pid, application: 'a worker', blockedBy: { pid, application: 'by hand' } },
        remedy: `SELECT pg_terminate_backend(${pid});`,
      })
      expect(busy.explanation).toMatch(
        new RegExp(
          ` It waits for a lock of server process ${pid} \\(by hand, user postgres\\), idle in transaction for `,
        ),
      )
    }
    await session.query('ROLLBACK')
    await claimed
    expect(reasonOf(await sluice.operate.queues.explain(queue), 'slot_busy').details).not.toHaveProperty('blockedBy')
  })

  test('in a handler is followed too', async ({ database, queue, sluice }) => {
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('SELECT pg_advisory_xact_lock(4711)')
    const [id = ''] = await put(sluice, queue, [1])
    sluice
      .pipeline(queue)
      .handle(async (_, { tx }) => {
        await tx.query('SELECT pg_advisory_xact_lock(4711)')
      })
      .start()
    const isBlocked = async () =>
      (await sluice.operate.messages.explain(queue, id)).headline.details.blockedBy !== undefined
    await waitFor(isBlocked, { what: 'the handler to wait' })
    expect((await sluice.operate.messages.explain(queue, id)).headline).toMatchObject({
      reason: 'in_flight',
      details: { application: 'sluice', blockedBy: { pid, application: 'by hand' } },
      remedy: `SELECT pg_terminate_backend(${pid});`,
    })
    await session.query('ROLLBACK')
  })
})

describe('a row that a session has locked twice', () => {
  test('is locked, and free when that rolls back', async ({ database, queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const [keyed = ''] = await put(sluice, queue, [1], { orderingKey: 'k' })
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('SELECT FROM sluice.message FOR KEY SHARE')
    await session.query('SAVEPOINT twice')
    await session.query('SELECT FROM sluice.message FOR UPDATE')
    const [{ members }] = (await database.sql<{ members: string }>(
      'SELECT count(*)::text AS members FROM sluice.message m, pg_get_multixact_members(m.xmax) WHERE m.id = $1',
      [id],
    )) as [{ members: string }]
    expect(members).toBe('2')
    for (const one of [id, keyed])
      expect((await sluice.operate.messages.explain(queue, one)).headline).toMatchObject({
        reason: 'locked',
        details: { pid, application: 'by hand' },
      })
    expect(words(await sluice.operate.queues.explain(queue))).toEqual(['no_worker', 'locked'])
    await session.query('ROLLBACK')
    for (const one of [id, keyed])
      expect(words(await sluice.operate.messages.explain(queue, one))).toEqual(['no_worker'])
  })
})

describe('a table that a session has locked', () => {
  test('is named at once where nobody can read it, with the session, and not afterwards', async ({
    database,
    queue,
    sluice,
  }) => {
    const [id = ''] = await put(sluice, queue, [1])
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'all', { from: 'start' })
    await database.sql(`SELECT sluice.append($1, '{}')`, [queue])
    await sluice.schedules.set(queue, { every: '1d', queue, payload: {} })
    const asks = [
      () => sluice.operate.messages.explain(queue, id),
      () => sluice.operate.messages.explain(queue, { dedupeKey: 'k' }),
      () => sluice.operate.queues.explain(queue),
      () => sluice.operate.groups.explain(queue, 'all', 1),
      () => sluice.operate.schedules.explain(queue),
    ]
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    for (const ask of asks)
      expect((await ask()).headline).toMatchObject({
        reason: 'table_locked',
        explanation: expect.stringContaining(
          `A session has locked table sluice.message (AccessExclusiveLock): no other session can read or write it. It is server process ${pid} (by hand, `,
        ),
        details: { table: 'sluice.message', mode: 'AccessExclusiveLock', granted: true, pid },
        remedy: `SELECT pg_terminate_backend(${pid});`,
      })
    await session.query('ROLLBACK')
    for (const ask of asks) expect(words(await ask())).not.toContain('table_locked')
  })

  test('is named where nobody can write to it, with what else there is', async ({ database, queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN SHARE MODE')
    const explained = await sluice.operate.messages.explain(queue, id)
    expect(words(explained)).toEqual(['table_locked', 'no_worker'])
    expect(explained.headline).toMatchObject({
      explanation: expect.stringContaining('(ShareLock): no other session can write to it.'),
      details: { pid },
    })
    await session.query('ROLLBACK')
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
  })

  test('is to be locked by a session that waits: the one for which it waits is to end', async ({
    database,
    queue,
    sluice,
  }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const { session, pid } = await openSession(database, 'a report')
    await session.query('SELECT FROM sluice.message')
    const change = await sessionOf(database, 'a migration')
    const { rows } = await change.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
    const changed = change.query('BEGIN; LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE; ROLLBACK')
    await untilWaiting(database, rows[0]!.pid)
    const { headline } = await sluice.operate.messages.explain(queue, id)
    expect(headline).toMatchObject({
      reason: 'table_locked',
      details: { granted: false, application: 'a migration', blockedBy: { pid, application: 'a report' } },
      remedy: `SELECT pg_terminate_backend(${pid});`,
    })
    expect(headline.explanation).toMatch(
      /^A session waits to lock table sluice\.message .*, and all that comes after it/,
    )
    await session.query('ROLLBACK')
    await changed
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
  })

  test('does not matter where no claim uses it', async ({ database, queue, sluice }) => {
    const [id = ''] = await put(sluice, queue, [1])
    const { session } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.action IN ACCESS EXCLUSIVE MODE')
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['no_worker'])
    await session.query('LOCK TABLE sluice.slot IN SHARE MODE')
    expect((await sluice.operate.messages.explain(queue, id)).headline.details).toMatchObject({ table: 'sluice.slot' })
  })

  test('does not matter to a message that is gone', async ({ database, queue, sluice }) => {
    const { id, release } = await busyWorker(sluice, queue)
    release()
    const isGone = async () => words(await sluice.operate.messages.explain(queue, id))[0] === 'not_found'
    await waitFor(isGone, { what: 'the message to be handled' })
    const { session } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN SHARE MODE')
    expect(words(await sluice.operate.messages.explain(queue, id))).toEqual(['not_found'])
  })
})

async function untilWaiting(database: TestDatabase, pid: number): Promise<void> {
  const isWaiting = async () =>
    (await database.sql('SELECT FROM pg_locks WHERE pid = $1 AND NOT granted', [pid])).length > 0
  await waitFor(isWaiting, { what: `process ${pid} to wait` })
}
