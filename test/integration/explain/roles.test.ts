import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { busyWorker, words } from '../../support/explain/reasons.ts'
import { test } from '../../support/servers/logins.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('a login that may only read', () => {
  test('is told who has locked a message, and that it may not see what that session does', async ({
    database,
    login,
  }) => {
    const reader = await login('sluice_reader')
    const owner = startTestSluice(database)
    const sluice = startTestSluice(reader)
    const [id = ''] = await put(owner, 'locked', [1])
    const session = new pg.Client({ connectionString: database.url, application_name: 'by hand' })
    await session.connect()
    onTestFinished(() => session.end())
    await session.query('BEGIN')
    const { rows } = await session.query(
      'SELECT pg_backend_pid() AS pid FROM sluice.message WHERE id = $1 FOR UPDATE',
      [id],
    )
    const { headline, others } = await sluice.operate.messages.explain('locked', id)
    expect(others).toEqual([])
    expect(headline).toMatchObject({ reason: 'locked', details: { pid: rows[0].pid, hidden: true } })
    expect(headline.explanation).toContain(
      `It is server process ${rows[0].pid} (by hand, user postgres): role "${reader.name}" may not see what it does (pg_read_all_stats).`,
    )
    const seen = await owner.operate.messages.explain('locked', id)
    expect(seen.headline.explanation).toContain('idle in transaction for ')
    await database.sql(`GRANT pg_read_all_stats TO ${reader.name}`)
    expect((await sluice.operate.messages.explain('locked', id)).headline.explanation).toContain(
      'idle in transaction for ',
    )
  })

  test('gets the same reasons as the owner for messages, keys, queues, events and schedules', async ({
    database,
    login,
  }) => {
    const owner = startTestSluice(database)
    const sluice = startTestSluice(await login('sluice_reader'))
    const { id } = await busyWorker(owner, 'busy')
    await put(owner, 'busy', [1], { orderingKey: 'k' })
    await owner.streams.set('orders')
    await owner.groups.set('orders', 'all', { from: 'start' })
    await database.sql(`SELECT sluice.append('orders', '{}')`)
    await owner.schedules.set('nightly', { every: '1d', queue: 'busy', payload: {} })
    await waitFor(async () => words(await owner.operate.messages.explain('busy', id))[0] === 'in_flight', {
      what: 'the record',
    })
    for (const ask of [
      ({ operate }: typeof owner) => operate.messages.explain('busy', id),
      ({ operate }: typeof owner) => operate.messages.explain('busy', '4711'),
      ({ operate }: typeof owner) => operate.messages.explain('busy', { dedupeKey: 'k' }),
      ({ operate }: typeof owner) => operate.queues.explain('busy'),
      ({ operate }: typeof owner) => operate.queues.explain('orders:all'),
      ({ operate }: typeof owner) => operate.groups.explain('orders', 'all', 1),
      ({ operate }: typeof owner) => operate.schedules.explain('nightly'),
    ])
      expect(words(await ask(sluice))).toEqual(words(await ask(owner)))
  })

  test('may not explain without the role', async ({ login }) => {
    const sluice = startTestSluice(await login('sluice_producer'))
    await expect(sluice.operate.messages.explain('busy', '1')).rejects.toMatchObject({ code: 'PRIVILEGE_MISSING' })
  })
})
