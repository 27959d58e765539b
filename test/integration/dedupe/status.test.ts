import pg from 'pg'
import { describe, expect } from 'vitest'
import { ask, KEY_STATES, type KeyState } from '../../support/dedupe/key-states.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { untilRecorded } from '../../support/rows/rows.ts'
import { test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('the status of a dedupe key', () => {
  const STATES: readonly (readonly [KeyState, string])[] = [
    ['nobody', 'unknown'],
    ['ready', 'ready'],
    ['scheduled', 'scheduled'],
    ['retrying', 'retrying'],
    ['in a transactional handler', 'in_flight'],
    ['in a leased handler', 'in_flight'],
    ['in a claim', 'in_flight'],
    ['completed, kept', 'completed'],
    ['completed, not kept', 'unknown'],
    ['completed, no longer kept', 'unknown'],
    ['dead', 'dead'],
    ['cancelled', 'unknown'],
  ]

  test.for(STATES)('%s: %s', async ([given, state], { database, sluice, queue }) => {
    await KEY_STATES[given]({ database, sluice, queue }, 'reject')
    if (given === 'in a transactional handler') await untilRecorded(database, queue, 1)
    const known = await sluice.operate.messages.status(queue, { dedupeKey: 'K' })
    expect(known).toMatchObject({ state, requeuedId: null })
    if (known.id === null) return
    const byId = await sluice.operate.messages.status(queue, { id: known.id })
    // By its number nothing is known of a message that has succeeded.
    expect(byId.state).toBe(state === 'completed' ? 'unknown' : state)
  })

  test('tells of the message in hand, and of the one that comes after it', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    const first = await ask(stage, 1, 'requeue')
    const claim = await sluice.claim(queue)
    const second = await ask(stage, 2, 'requeue')
    expect(await sluice.operate.messages.status(queue, { dedupeKey: 'K' })).toEqual({
      id: first.id,
      state: 'in_flight',
      requeuedId: second.id,
      attempt: 0,
      dueAt: claim?.expiresAt,
      takenUntil: null,
      lockedBy: null,
    })
    await claim?.settle(claim.messages)
    expect(await sluice.operate.messages.status(queue, { dedupeKey: 'K' })).toMatchObject({
      id: second.id,
      state: 'ready',
    })
  })

  test('says until when the key is taken', async ({ database, sluice, queue }) => {
    await KEY_STATES['completed, kept']({ database, sluice, queue }, 'reject')
    const { takenUntil, dueAt, attempt } = await sluice.operate.messages.status(queue, { dedupeKey: 'K' })
    expect(takenUntil?.getTime()).toBeGreaterThan(Date.now() + 3_000_000)
    expect([dueAt, attempt]).toEqual([null, null])
  })

  test('says that a message has succeeded where the queue keeps its history', async ({ database, sluice, queue }) => {
    await database.sql('INSERT INTO sluice.queue (queue, history_ms) VALUES ($1, 3600000)', [queue])
    const { id } = await ask({ database, sluice, queue }, 1, 'reject')
    await sluice.pop(queue)
    const known = {
      id,
      state: 'completed',
      requeuedId: null,
      attempt: 0,
      dueAt: null,
      takenUntil: null,
      lockedBy: null,
    }
    expect(await sluice.operate.messages.status(queue, { id })).toEqual(known)
    expect(await sluice.operate.messages.status(queue, { dedupeKey: 'K' })).toEqual(known)
  })

  test('is read from the last of its windows, and not from all of them', async ({ database, queue }) => {
    await database.sql(
      `INSERT INTO sluice.kept_key SELECT $1, 'K', n, clock_timestamp() + n * interval '1 s' FROM generate_series(1, 20000) AS n`,
      [queue],
    )
    const read = async () => {
      const text = `EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, FORMAT JSON) SELECT sluice_private.look_at_key('${queue}', 'K', 0)`
      const [row] = await database.sql<{ 'QUERY PLAN': [{ Plan: { 'Shared Hit Blocks': number } }] }>(text)
      return row?.['QUERY PLAN'][0].Plan['Shared Hit Blocks'] ?? Number.POSITIVE_INFINITY
    }
    // The least: it may plan, and read the catalog.
    expect(Math.min(await read(), await read(), await read())).toBeLessThan(40)
    expect(
      await database.sql(`SELECT message_id::text AS id FROM sluice.status($1, dedupe_key => 'K')`, [queue]),
    ).toEqual([{ id: '20000' }])
  })

  test('needs an id or a key', async ({ database, sluice, queue }) => {
    for (const which of [{}, { id: '1', dedupeKey: 'K' }, { id: 1 }, { dedupeKey: '' }, { key: 'K' }]) {
      await expect(sluice.operate.messages.status(queue, which as { id: string })).rejects.toMatchObject({
        code: 'OPTION_INVALID',
      })
    }
    await expect(database.sql('SELECT sluice.status($1)', [queue])).rejects.toThrow(
      'id, dedupe_key: expected one of the two, received none',
    )
  })

  test('is on the command line', async ({ database, sluice }) => {
    const cli = (...args: string[]) => runCli(args, { DATABASE_URL: database.url })
    const { id } = await ask({ database, sluice, queue: 'shown' }, 1, 'reject')
    const shown = await cli('message', 'status', 'shown', '--dedupe-key', 'K')
    expect(shown.stdout).toMatch(new RegExp(`^queue +shown\nid +${id}\nstate +ready\nfailed attempts +0\ndue +20`))
    const json = await cli('message', 'status', 'shown', id, '--json')
    expect(JSON.parse(json.stdout)).toMatchObject({ id, state: 'ready' })
    expect(await cli('message', 'status', 'shown', '--dedupe-key', 'other')).toMatchObject({
      code: 1,
      stderr: 'error: Queue "shown" knows of no message with the dedupe key "other".\n',
    })
    expect(await cli('message', 'status', 'shown')).toMatchObject({ code: 2 })
  })
})

describe('pruning', () => {
  const count = async (database: { sql: (text: string) => Promise<unknown[]> }) => ({
    keys: (await database.sql('SELECT FROM sluice.dedupe')).length,
    windows: (await database.sql('SELECT FROM sluice.kept_key')).length,
  })

  test('deletes keys that are free and windows that are over, at most so many', async ({ database, sluice, queue }) => {
    await database.sql('TRUNCATE sluice.dedupe, sluice.kept_key, sluice.message')
    const states = Object.keys(KEY_STATES).filter((name) => name !== 'nobody') as KeyState[]
    await Promise.all(
      states.map((name) =>
        KEY_STATES[name]({ database, sluice, queue: `${queue}.${name.replaceAll(/\W/g, '.')}` }, 'reject'),
      ),
    )
    expect(await count(database)).toEqual({ keys: states.length, windows: 2 })
    const pruned = async (most: number) =>
      (await database.sql<{ n: number }>('SELECT sluice.prune_dedupe($1) AS n', [most]))[0]?.n
    expect(await pruned(1)).toBe(1)
    // What is not kept, no longer kept, or cancelled.
    expect(await pruned(1_000)).toBe(3)
    expect(await count(database)).toEqual({ keys: states.length - 3, windows: 1 })
    expect(await pruned(1_000)).toBe(0)
  })

  test('waits for no producer, and none waits for its result', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await KEY_STATES.cancelled(stage, 'reject')
    const writer = new pg.Client({ connectionString: database.url })
    await writer.connect()
    try {
      await writer.query('BEGIN')
      expect(await ask(stage, 2, 'reject', undefined, writer)).toMatchObject({ outcome: 'added' })
      await database.sql('SELECT sluice.prune_dedupe()')
      await writer.query('COMMIT')
    } finally {
      await writer.end()
    }
    await database.sql('SELECT sluice.prune_dedupe()')
    expect(await ask(stage, 3, 'reject')).toMatchObject({ outcome: 'duplicate' })
  })

  test('refuses a bound that makes no sense', async ({ database }) => {
    await expect(database.sql('SELECT sluice.prune_dedupe(0)')).rejects.toThrow(
      'most: expected an integer from 1 to 10000, received 0',
    )
  })
})

describe('what is wrong with a dedupe key', () => {
  test.for([
    [{ key: '' }, /^options\.dedupe\.key: expected 1 to 255 bytes of text, received ""/],
    [{ key: 7 }, /^options\.dedupe\.key: .*received 7\. Turn a number into a string/],
    [{ key: 'x'.repeat(256) }, /^options\.dedupe\.key: expected 1 to 255 bytes/],
    [{ key: 'a\0b' }, /without NUL/],
    [{}, /^options\.dedupe\.key: .*received undefined/],
    ['key', /^options\.dedupe: expected an object of options, received "key"/],
    [{ key: 'K', ttl: 1 }, /^options\.dedupe: expected only the options key, for, onDuplicate, received "ttl"/],
    [{ key: 'K', for: 0 }, /^options\.dedupe\.for: expected a duration from '1ms' to '36525d'/],
    [
      { key: 'K', onDuplicate: 'replace' },
      /^options\.dedupe\.onDuplicate: expected one of reject, update, requeue, debounce, throttle, received "replace"/,
    ],
    [{ key: 'K', onDuplicate: 'throttle' }, /^options\.dedupe\.for: throttle needs it\. As in for: '10m'/],
    [{ key: 'K', onDuplicate: 'debounce' }, /^options\.dedupe: debounce also needs a delay or dueAt/],
  ] as const)('%j', async ([dedupe, message], { sluice, queue }) => {
    await expect(
      sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe } as unknown as { dedupe: { key: string } }),
    ).rejects.toMatchObject({ code: 'OPTION_INVALID', message: expect.stringMatching(message) })
  })

  test.for(['requeue', 'debounce'] as const)('%s with a tenant', async (onDuplicate, { database, sluice, queue }) => {
    const options = { tenant: 'acme', delay: '1s', dedupe: { key: 'K', onDuplicate } } as const
    await expect(sluice.enqueue(sluice.ownTransaction, queue, 1, options)).rejects.toMatchObject({
      code: 'OPTION_INVALID',
      message: expect.stringMatching(`^options.dedupe: ${onDuplicate} excludes a tenant`),
    })
    expect(await database.sql('SELECT FROM sluice.dedupe WHERE queue = $1', [queue])).toEqual([])
  })

  test.for([
    [`dedupe_key => NULL`, /^dedupe_key: expected 1 to 255 bytes of text, received NULL/],
    [`dedupe_key => 'K', on_duplicate => 'replace'`, /^on_duplicate: expected reject, update, .*received 'replace'/],
    [`dedupe_key => 'K', dedupe_for => '0'`, /^dedupe_for: expected from 1 millisecond to 100 years/],
    [`dedupe_key => 'K', on_duplicate => 'throttle'`, /^dedupe_for: throttle needs it/],
    [`dedupe_key => 'K', on_duplicate => 'debounce'`, /^delay: debounce needs it/],
    [`dedupe_key => 'K', on_duplicate => 'requeue', tenant => 'acme'`, /^tenant: requeue excludes it/],
    [`dedupe_key => 'K', delay => '-1 s'`, /^delay: expected from zero/],
  ] as const)('in SQL: %s', async ([args, message], { database }) => {
    await expect(database.sql(`SELECT sluice.enqueue_deduped('wrong', '1', ${args})`)).rejects.toThrow(message)
  })
})

describe('a key that is freed', () => {
  const ANSWERS: readonly (readonly [KeyState, string, string])[] = [
    ['nobody', 'free', 'added'],
    ['ready', 'taken', 'duplicate'],
    ['retrying', 'taken', 'duplicate'],
    ['in a transactional handler', 'taken', 'duplicate'],
    ['in a leased handler', 'taken', 'duplicate'],
    ['in a claim', 'taken', 'duplicate'],
    ['completed, kept', 'freed', 'added'],
    ['completed, not kept', 'free', 'added'],
    ['completed, no longer kept', 'free', 'added'],
    ['dead', 'free', 'added'],
    ['cancelled', 'free', 'added'],
  ]

  test.for(ANSWERS)(
    '%s: %s, and the next enqueue is %s',
    async ([given, answer, outcome], { database, sluice, queue }) => {
      const stage = { database, sluice, queue }
      await KEY_STATES[given](stage, 'reject')
      expect(await sluice.operate.messages.freeKey(queue, 'K')).toBe(answer)
      expect(await ask(stage, 9, 'reject')).toMatchObject({ outcome })
    },
  )

  test('is free of its throttle, once its message has gone', async ({ database, sluice, queue }) => {
    const enqueue = () =>
      sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key: 'K', for: '1h', onDuplicate: 'throttle' } })
    await enqueue()
    expect(await sluice.operate.messages.freeKey(queue, 'K')).toBe('taken')
    await sluice.operate.messages.cancel(queue, { dedupeKey: 'K' })
    expect(await enqueue()).toMatchObject({ outcome: 'duplicate' })
    expect(await database.sql('SELECT sluice.free_key($1, $2) AS answer', [queue, 'K'])).toEqual([{ answer: 'freed' }])
    expect(await enqueue()).toMatchObject({ outcome: 'added' })
  })

  test('waits for a producer who has just taken it', async ({ database, sluice, queue }) => {
    const stage = { database, sluice, queue }
    await KEY_STATES['completed, not kept'](stage, 'reject')
    const producer = await database.pool.connect()
    try {
      await producer.query('BEGIN')
      await sluice.enqueue(producer, queue, 1, { dedupe: { key: 'K' } })
      const freed = sluice.operate.messages.freeKey(queue, 'K')
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%free_key%'`
      await waitFor(async () => (await database.sql(waits)).length === 1, { what: 'the wait for the producer' })
      await producer.query('COMMIT')
      expect(await freed).toBe('taken')
    } finally {
      producer.release()
    }
  })

  test('on the command line: says what it was, and fails while a message has it', async ({
    database,
    sluice,
    queue,
  }) => {
    const free = () => runCli(['message', 'free-key', queue, 'K', '--database-url', database.url])
    const stage = { database, sluice, queue }
    await KEY_STATES['completed, kept'](stage, 'reject')
    expect(await free()).toMatchObject({ code: 0, stdout: 'It is free.\n' })
    expect(await free()).toMatchObject({ code: 0, stdout: 'It was free.\n' })
    await ask(stage, 9, 'reject')
    expect(await free()).toMatchObject({ code: 1, stderr: expect.stringContaining('A message has the key') })
  })
})
