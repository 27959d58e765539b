import { describe, expect } from 'vitest'
import { EXECUTE } from '../../../src/enqueue/own-symbols.ts'
import type { AuditAction } from '../../../src/operate/audit.ts'
import type { Statement } from '../../../src/table/statement.ts'
import { CHANGES, type Change, NO_ACTIONS } from '../../support/rows/changes.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { ROLES_SQL } from '../../support/servers/logins.ts'
import { put, test } from '../../support/sluice.ts'

const DEFAULTS = { actor: 'ada', queue: null, subject: null, message_ids: null, count: '1', details: {} }

/** Runs statements of somebody in one transaction. Returns what is noted in the end, also if it is rolled back. */
async function noted(database: TestDatabase, sql: readonly string[], end: 'COMMIT' | 'ROLLBACK', actor = 'ada') {
  const [{ last } = { last: '0' }] = await database.sql<{ last: string }>(
    'SELECT coalesce(max(id), 0) AS last FROM sluice.audit',
  )
  const client = await database.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query(`SELECT set_config('sluice.actor', $1, true)`, [actor])
    for (const text of sql) await client.query(text)
    await client.query(end)
  } finally {
    client.release()
  }
  return database.sql(
    `SELECT actor, login = session_user AS as_login, action, queue, subject, message_ids, count, details
     FROM sluice.audit WHERE id > $1 ORDER BY id`,
    [last],
  )
}

async function prepare(database: TestDatabase, { given }: Change, q: string): Promise<void> {
  for (const text of given?.(q) ?? []) await database.sql(text)
}

describe('an action', () => {
  test.for(Object.keys(CHANGES))('sluice.%s is noted when it changes something', async (name, { database, queue }) => {
    const change = CHANGES[name]!
    await prepare(database, change, queue)
    expect(await noted(database, [change.call(queue)], 'ROLLBACK')).toEqual([])
    const expected = { ...DEFAULTS, as_login: true, ...change.noted(queue) }
    expect(await noted(database, [change.call(queue)], 'COMMIT')).toEqual([expected])
    if (change.idle !== undefined) expect(await noted(database, [change.idle(queue)], 'COMMIT')).toEqual([])
  })

  test('can be asked for by its name', async ({ sluice, queue }) => {
    for (const { noted: row } of Object.values(CHANGES)) {
      const action = row(queue).action as AuditAction
      expect(await sluice.operate.audit.list({ queue, action })).toEqual({ actions: [], next: null })
    }
  })

  test('is a cancel that has to ask a handler, and one of both messages of a dedupe key', async ({
    database,
    sluice,
    queue,
  }) => {
    const enqueue = () =>
      sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: 'k', onDuplicate: 'requeue' } })
    const { id: first } = await enqueue()
    const batch = await database.pool.connect()
    try {
      await batch.query('BEGIN')
      await batch.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
      const { id: second } = await enqueue()
      expect(second).not.toBe(first)
      expect(await sluice.operate.messages.cancel(queue, { dedupeKey: 'k' })).toMatchObject({ result: 'asked' })
      expect((await sluice.operate.audit.list({ queue, subject: 'k' })).actions).toMatchObject([
        {
          action: 'message.cancel',
          messageIds: [second, first],
          count: 2,
          details: { result: 'asked', state: 'in_flight' },
        },
      ])
    } finally {
      await batch.query('ROLLBACK')
      batch.release()
    }
  })

  test('on the queue of a group is one on the group', async ({ sluice, queue }) => {
    await sluice.streams.set(queue)
    await sluice.groups.set(queue, 'g')
    const { groups } = sluice.operate.by('ada')
    await groups.pause(queue, 'g', { reason: 'a trial' })
    await groups.resume(queue, 'g')
    const { actions } = await sluice.operate.audit.list({ queue: `${queue}:g`, actor: 'ada' })
    expect(actions).toMatchObject([
      { action: 'group.resume', details: {} },
      { action: 'group.pause', details: { reason: 'a trial' } },
    ])
  })

  test('is every function by which an operator or an administrator changes something', async ({ database }) => {
    await database.sql(ROLES_SQL)
    const rows = await database.sql<{ name: string }>(
      `SELECT p.proname AS name FROM pg_proc p
       WHERE p.pronamespace = 'sluice'::regnamespace AND NOT has_function_privilege('sluice_reader', p.oid, 'EXECUTE')
         AND (has_function_privilege('sluice_operator', p.oid, 'EXECUTE')
              OR has_function_privilege('sluice_admin', p.oid, 'EXECUTE'))
       ORDER BY p.proname`,
    )
    // A claimer's functions, which are actions if somebody is named.
    const ofClaimers = ['claim_renew', 'claim_settle']
    const known = [...Object.keys(CHANGES).filter((name) => !ofClaimers.includes(name)), ...NO_ACTIONS]
    expect(rows.map(({ name }) => name)).toEqual(known.toSorted())
  })

  test('is no statement: neither role may write a table, but for when maintenance began', async ({ database }) => {
    await database.sql(ROLES_SQL)
    const rows = await database.sql(
      `SELECT DISTINCT c.relname FROM pg_class c CROSS JOIN unnest('{sluice_operator,sluice_admin}'::text[]) AS role
       WHERE c.relnamespace = 'sluice'::regnamespace AND c.relkind IN ('r', 'p', 'v')
         AND (has_table_privilege(role, c.oid, 'DELETE') OR has_any_column_privilege(role, c.oid, 'INSERT, UPDATE'))`,
    )
    expect(rows).toEqual([{ relname: 'maintenance' }])
  })
})

describe('who acts', () => {
  test('is who operate.by, the call or the session says, or else the login, which is noted in any case', async ({
    database,
    sluice,
    queue,
  }) => {
    const { operate } = sluice
    const [own, named, cancelled] = await put(sluice, queue, [1, 2, 3])
    await operate.queues.pause(queue, { by: 'bob' })
    await operate.by('ada').queues.resume(queue)
    await operate.by('ada').queues.pause(queue, { by: 'carol' })
    await operate.messages.cancel(queue, own!)
    await operate.by('ada').messages.cancel(queue, named!)
    await database.sql(`SELECT set_config('sluice.actor', 'dan', true), sluice.cancel('${queue}', ${cancelled})`)
    const [{ login } = { login: '' }] = await database.sql<{ login: string }>('SELECT session_user AS login')
    const { actions } = await operate.audit.list({ queue })
    expect(actions.map(({ action, actor }) => [action, actor])).toEqual([
      ['message.cancel', 'dan'],
      ['message.cancel', 'ada'],
      ['message.cancel', login],
      ['queue.pause', 'carol'],
      ['queue.resume', 'ada'],
      ['queue.pause', 'bob'],
    ])
    expect(new Set(actions.map((one) => one.login))).toEqual(new Set([login]))
    const [settings] = await operate.queues.settings.list({ queue })
    expect(settings).toMatchObject({ pausedBy: 'carol', changedBy: 'carol' })
    expect(() => operate.by('')).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
    expect(() => operate.by('a'.repeat(201))).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  })

  test('in the transaction of the caller is named for that call alone', async ({ database, sluice, queue }) => {
    const [first, second, third] = await put(sluice, queue, [1, 2, 3])
    const tx = await database.pool.connect()
    try {
      await tx.query('BEGIN')
      await tx.query(`SELECT set_config('sluice.actor', 'app', true)`)
      await sluice.operate.by('ada').messages.cancel(queue, first!, { tx })
      await sluice.operate.messages.cancel(queue, second!, { tx })
      await tx.query('COMMIT')
      await tx.query('BEGIN')
      await sluice.operate.by('ada').messages.cancel(queue, third!, { tx })
      await tx.query('ROLLBACK')
    } finally {
      tx.release()
    }
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions.map(({ actor, messageIds }) => [actor, ...messageIds])).toEqual([
      ['app', second],
      ['ada', first],
    ])
  })

  test('in the transaction of the caller is no more named after an answer that cannot be read', async ({
    database,
    sluice,
    queue,
  }) => {
    const client = await database.pool.connect()
    const losesAnswers = async ({ name, text }: Statement, params: unknown[]) => {
      const { rows } = await client.query(text, params)
      return name === 'sluice_queue_pause' ? [] : rows
    }
    try {
      await client.query('BEGIN')
      const tx = { [EXECUTE]: () => losesAnswers } as unknown as typeof client
      await expect(sluice.operate.by('ada').queues.pause(queue, { tx })).rejects.toThrow('expected one row')
      const { rows } = await client.query(`SELECT current_setting('sluice.actor', true) AS actor`)
      expect(rows).toEqual([{ actor: '' }])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })

  test('is noted for what an operator does to the claims of others, and not for their owners', async ({
    sluice,
    queue,
  }) => {
    await put(sluice, queue, [1, 2, 3])
    const [first, second, third] = [
      await sluice.claim(queue, { limit: 1 }),
      await sluice.claim(queue, { limit: 1 }),
      await sluice.claim(queue, { limit: 1 }),
    ]
    const { claims } = sluice.operate.by('ada')
    await first!.renew()
    await first!.settle(first!.messages)
    await second!.release()
    await claims.renew(queue, third!.id)
    await claims.release(queue, third!.id)
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions).toMatchObject([
      { action: 'claim.release', actor: 'ada', subject: third!.id, messageIds: [third!.messages[0]!.id], count: 1 },
      { action: 'claim.renew', actor: 'ada', subject: third!.id },
    ])
  })
})

describe('operate.audit', () => {
  test('finds actions by queue, message, kind, actor, subject and time, in pages', async ({
    database,
    sluice,
    queue,
  }) => {
    const { operate } = sluice
    const ids = await put(sluice, queue, [1, 2, 3, 4])
    for (const id of ids.slice(0, 3)) await operate.by('ada').messages.cancel(queue, id)
    await operate.by('bob').queues.pause(queue)
    await operate.schedules.set(queue, { queue, every: '1h', payload: 1 })
    const found = async (filter: Parameters<typeof operate.audit.list>[0]) =>
      (await operate.audit.list({ queue, ...filter })).actions.map(({ action }) => action)
    expect(await found({ id: ids[1] })).toEqual(['message.cancel'])
    expect(await found({ action: 'queue' })).toEqual(['queue.pause'])
    expect(await found({ action: 'message.cancel' })).toHaveLength(3)
    expect(await found({ actor: 'bob' })).toEqual(['queue.pause'])
    expect(await found({ subject: queue })).toEqual(['schedule.set'])
    const [{ at } = { at: new Date(0) }] = await database.sql<{ at: Date }>(
      `UPDATE sluice.action SET at = at - interval '1 hour' WHERE queue = $1 AND action = 'queue.pause' RETURNING at`,
      [queue],
    )
    const later = new Date(at.getTime() + 60_000)
    expect(await found({ before: later })).toEqual(['queue.pause'])
    expect(await found({ since: later })).toHaveLength(4)
    const all: string[] = []
    let after: string | null = null
    do {
      const page: Awaited<ReturnType<typeof operate.audit.list>> = await operate.audit.list({ queue, limit: 2, after })
      all.push(...page.actions.map(({ id }) => id))
      after = page.next
    } while (after !== null)
    expect(all).toEqual((await operate.audit.list({ queue })).actions.map(({ id }) => id))
    expect(new Set(all).size).toBe(5)
    await expect(operate.audit.list({ action: 'message.cancelled' as 'message.cancel' })).rejects.toThrow(
      /audit\.list\.action: expected an action such as 'message\.cancel'/,
    )
  })

  test('has one row for a change of many steps, with the first hundred ids', async ({ database, sluice, queue }) => {
    await database.sql(`INSERT INTO sluice.message (queue, payload) SELECT $1, '1' FROM generate_series(1, 2500)`, [
      queue,
    ])
    expect(await sluice.operate.by('ada').queues.clear(queue)).toBe(2_500)
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions).toMatchObject([{ action: 'queue.clear', actor: 'ada', count: 2_500 }])
    expect(actions[0]!.messageIds).toHaveLength(100)
  })

  test('keeps actions for as long as it is told, and maintenance removes a few at a time', async ({
    database,
    sluice,
    queue,
  }) => {
    expect(await sluice.operate.audit.keep('60d')).toBe(5_184_000_000)
    expect(await sluice.operate.audit.keep()).toBe(5_184_000_000)
    await database.sql(
      `INSERT INTO sluice.action (at, actor, login, action, queue, count)
       SELECT now() - age * interval '1 day', 'ada', 'ada', 'queue.pause', $1, 1 FROM unnest('{61,62,63,59}'::integer[]) AS age`,
      [queue],
    )
    const left = async () => (await sluice.operate.audit.list({ queue })).actions.length
    await database.sql('SELECT sluice.prune_leftovers(2)')
    expect(await left()).toBe(2)
    await sluice.operate.maintain()
    expect(await left()).toBe(1)
    await expect(sluice.operate.audit.keep('23h')).rejects.toMatchObject({ code: 'OPTION_INVALID' })
    await expect(database.sql(`SELECT sluice.audit_keep('23 hours')`)).rejects.toMatchObject({ code: '22023' })
    await expect(database.sql('SELECT sluice.audit_keep(NULL)')).rejects.toMatchObject({ code: '22023' })
  })

  test('has nothing of what applications and workers do', async ({ sluice, queue }) => {
    await sluice.operate.queues.settings.set(queue, { history: '1d' })
    await put(sluice, queue, [1, 2, 3])
    await sluice.pop(queue)
    const taken = await sluice.claim(queue)
    await taken!.settle(taken!.messages)
    await sluice.operate.maintain()
    const { actions } = await sluice.operate.audit.list({ queue })
    expect(actions.map(({ action }) => action)).toEqual(['queue.set'])
  })
})
