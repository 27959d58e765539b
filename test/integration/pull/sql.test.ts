import { describe, expect, inject } from 'vitest'
import { deadLetter } from '../../../src/message.ts'
import { put, test } from '../../support/sluice.ts'

/** Each with a queue, a claim and one of its messages. */
const FUNCTIONS = [
  'sluice.claim($1)',
  'sluice.claim_get($1, $2)',
  'sluice.claim_renew($1, $2)',
  'sluice.claim_release($1, $2)',
  'sluice.claim_settle($1, $2, ARRAY[$3::bigint])',
  'sluice.pop($1)',
]

describe('the functions for claims', () => {
  for (const call of FUNCTIONS) {
    test(`${call} refuses a transaction with one snapshot`, async ({ database, sluice, queue }) => {
      const [id] = await put(sluice, queue, [1, 2])
      const claim = await sluice.claim(queue, { limit: 1 })
      const client = await database.pool.connect()
      try {
        await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
        // Those that are not in the call have a type.
        const text = `SELECT ${call} FROM (SELECT $1::text, $2::bigint, $3::bigint) AS given`
        await expect(client.query(text, [queue, claim?.id, id])).rejects.toMatchObject({ code: '25001' })
      } finally {
        await client.query('ROLLBACK')
        client.release()
      }
    })
  }

  test('count a claim that has run out as a failed attempt, also for who pops the message', async ({
    database,
    sluice,
    queue,
  }) => {
    await put(sluice, queue, [1])
    await sluice.claim(queue)
    await database.sql(`UPDATE sluice.message SET due_at = clock_timestamp() WHERE queue = $1`, [queue])
    expect(await database.sql('SELECT attempt FROM sluice.pop($1)', [queue])).toEqual([{ attempt: 2 }])
  })

  test('claim a message with a key also if it was inserted by hand with an id below zero', async ({
    database,
    queue,
  }) => {
    await database.sql(`INSERT INTO sluice.message (queue, id, ordering_key, payload) VALUES ($1, -7, 'key', '1')`, [
      queue,
    ])
    expect(await database.sql('SELECT id FROM sluice.claim($1)', [queue])).toEqual([{ id: '-7' }])
  })

  test('hand out nothing else of a key while a claim has one of its messages, also nothing with a lower id', async ({
    database,
    queue,
  }) => {
    const insert = 'INSERT INTO sluice.message (queue, id, ordering_key, payload) VALUES ($1, $2, $3, $4)'
    const claim = () =>
      database.sql<{ id: string; claim_id: string }>('SELECT claim_id, id FROM sluice.claim($1, 1)', [queue])
    const pop = () => database.sql<{ id: string }>('SELECT id FROM sluice.pop($1, 1)', [queue])
    await database.sql(insert, [queue, 20, 'key', '1'])
    const [first] = await claim()
    await database.sql(insert, [queue, 10, 'key', '1'])
    expect(await claim()).toEqual([])
    expect(await pop()).toEqual([])
    const waits = 'SELECT held_by FROM sluice.messages WHERE queue = $1 AND id = 10'
    expect(await database.sql(waits, [queue])).toEqual([{ held_by: '20' }])
    await database.sql('SELECT FROM sluice.claim_settle($1, $2)', [queue, first!.claim_id])
    expect(await pop()).toEqual([{ id: '10' }])
  })

  test('sluice.claim_settle refuses an error with an outcome that has none', async ({ database, sluice, queue }) => {
    const [id] = await put(sluice, queue, [1])
    const claim = await sluice.claim(queue)
    for (const outcome of [`'ack'`, `'snooze', '1 hour'`]) {
      const text = `SELECT sluice.claim_settle($1, $2, ARRAY[$3::bigint], ${outcome}, error => 'busy')`
      await expect(database.sql(text, [queue, claim?.id, id])).rejects.toMatchObject({
        code: '22023',
        message: expect.stringContaining('error: expected with retry or dead_letter'),
      })
    }
    expect(await claim?.settle(id!)).toMatchObject({ settled: [id] })
  })

  test('sluice.claim_settle takes the least time of a retry alone, without a delay', async ({
    database,
    sluice,
    queue,
  }) => {
    const [id] = await put(sluice, queue, [1])
    const claim = await sluice.claim(queue)
    for (const [given, received] of [
      [`'ack'`, 'ack'],
      [`'retry', delay => '1 hour'`, 'retry and delay 01:00:00'],
      [`'snooze', delay => '1 hour'`, 'snooze and delay 01:00:00'],
    ] as const) {
      const text = `SELECT sluice.claim_settle($1, $2, NULL, ${given}, at_least => '2 hours')`
      await expect(database.sql(text, [queue, claim?.id]), given).rejects.toMatchObject({
        code: '22023',
        message: `at_least: expected with retry and without a delay, received 02:00:00 with ${received}`,
      })
    }
    await database.sql(`SELECT sluice.claim_settle($1, $2, NULL, 'retry', at_least => '2 hours')`, [queue, claim?.id])
    const due = `SELECT due_at - failed_at >= interval '119 minutes' AS late FROM sluice.message WHERE id = $1`
    expect(await database.sql(due, [id])).toEqual([{ late: true }])
  })

  test('sluice.claim_settle gives a dead letter a reason where an empty or blank one was given, as a claim does', async ({
    database,
    sluice,
    queue,
  }) => {
    const ids = await put(sluice, queue, [1, 2, 3])
    const claim = await sluice.claim(queue, { limit: 3 })
    const text = `SELECT FROM sluice.claim_settle($1, $2, ARRAY[$3::bigint], 'dead_letter', reason => $4)`
    await database.sql(text, [queue, claim?.id, ids[0], ''])
    await database.sql(text, [queue, claim?.id, ids[1], ' \n '])
    await claim?.settle(ids[2]!, deadLetter(''))
    const reasons = 'SELECT reason FROM sluice.dead_letter WHERE queue = $1'
    expect(await database.sql(reasons, [queue])).toEqual(ids.map(() => ({ reason: 'no reason given' })))
  })

  test('sluice.claim_settle stores the first 4,000 characters of an error and of a reason', async ({
    database,
    sluice,
    queue,
  }) => {
    const ids = await put(sluice, queue, [1, 2])
    const claim = await sluice.claim(queue, { limit: 2 })
    const settle = `SELECT FROM sluice.claim_settle($1, $2, ARRAY[$3::bigint]`
    const long = 'a.'.repeat(60_000)
    await database.sql(`${settle}, 'retry', error => $4)`, [queue, claim?.id, ids[0], long])
    await database.sql(`${settle}, 'dead_letter', reason => $4, error => $4)`, [queue, claim?.id, ids[1], long])
    const stored = long.slice(0, 4_000)
    expect(await database.sql('SELECT last_error FROM sluice.message WHERE queue = $1', [queue])).toEqual([
      { last_error: stored },
    ])
    expect(await database.sql('SELECT reason, error FROM sluice.dead_letter WHERE queue = $1', [queue])).toEqual([
      { reason: stored, error: stored },
    ])
  })

  test('bound the time that an interval lasts, whatever its months count for', async ({ database, sluice, queue }) => {
    const [id] = await put(sluice, queue, [1])
    for (const lease of ['24 months -706 days', '-24 months 721 days', '60 months -1786 days']) {
      const claimed = database.sql('SELECT FROM sluice.claim($1, 1, $2::interval)', [queue, lease])
      await expect(claimed, lease).rejects.toMatchObject({ code: '22023', message: expect.stringMatching(/^lease: /) })
    }
    const claim = await sluice.claim(queue)
    const snooze = `SELECT FROM sluice.claim_settle($1, $2, ARRAY[$3::bigint], 'snooze', interval '-24 months 720 days')`
    await expect(database.sql(snooze, [queue, claim?.id, id])).rejects.toMatchObject({ code: '22023' })
  })

  test.skipIf(inject('serverVersion') < 170_000)(
    'name an interval that is infinite',
    async ({ database, sluice, queue }) => {
      await put(sluice, queue, [1])
      const claim = await sluice.claim(queue)
      for (const lease of ['infinity', '-infinity']) {
        for (const [what, text] of [
          ['lease', `SELECT FROM sluice.claim($1, 1, $2::interval)`],
          ['grace', `SELECT FROM sluice.claim($1, 1, grace => $2::interval)`],
          ['lease', `SELECT FROM sluice.claim_renew($1, ${claim?.id}, $2::interval)`],
          ['delay', `SELECT FROM sluice.claim_settle($1, ${claim?.id}, NULL, 'snooze', $2::interval)`],
        ] as const) {
          await expect(database.sql(text, [queue, lease]), text).rejects.toMatchObject({
            code: '22023',
            message: expect.stringMatching(new RegExp(`^${what}: expected .* received ${lease}$`)),
          })
        }
      }
    },
  )

  for (const [policies, message] of [
    ['[]', 'policies: expected an object of retry policies by name, received []'],
    ['null', 'policies: expected an object of retry policies by name, received null'],
    [
      '{"p": null}',
      'policies.p: expected {"kind": "fixed", "delay": ...} or {"kind": "exponential", ...}, received null',
    ],
    ['{"p": "gentle"}', /^policies\.p: expected .* received "gentle"$/],
    ['{"p": {"kind": "fixed"}}', /^policies\.p: expected .* received \{"kind": "fixed"\}$/],
    ['{"p": {"kind": "fixed", "delay": -5}}', 'policies.p.delay: expected a time from 0 ms to 100 years, received -5'],
    ['{"p": {"kind": "fixed", "delay": 1e400}}', /^policies\.p\.delay: expected a time from 0 ms to 100 years/],
    ['{"p": {"kind": "exponential", "delay": "soon"}}', /^policies\.p\.delay: expected a time .* received "soon"$/],
    ['{"p": {"kind": "exponential", "factor": null}}', 'policies.p.factor: expected a value, received null'],
    ['{"p": {"kind": "exponential", "jitter": 2}}', 'policies.p.jitter: expected a number from 0 to 1, received 2'],
    ['{"p": {"kind": "exponential", "tries": 2}}', /^policies\.p: expected only .* received 'tries'$/],
  ] as const) {
    test(`refuse the retry policies ${policies}`, async ({ database, sluice, queue }) => {
      await put(sluice, queue, [1], { retryPolicy: 'p' })
      const claim = await sluice.claim(queue)
      const settled = database.sql(`SELECT FROM sluice.claim_settle($1, $2, outcome => 'retry', policies => $3)`, [
        queue,
        claim?.id,
        policies,
      ])
      await expect(settled).rejects.toMatchObject({
        code: '22023',
        message: typeof message === 'string' ? message : expect.stringMatching(message),
      })
    })
  }

  test('take the times of a retry policy as text', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1], { retryPolicy: 'p' })
    const claim = await sluice.claim(queue)
    await database.sql(
      `SELECT FROM sluice.claim_settle($1, $2, outcome => 'retry', policies => '{"p": {"kind": "fixed", "delay": "2 hours"}}')`,
      [queue, claim?.id],
    )
    const [row] = await database.sql(
      `SELECT due_at - failed_at BETWEEN interval '119 minutes' AND interval '121 minutes' AS waits FROM sluice.message WHERE queue = $1`,
      [queue],
    )
    expect(row).toEqual({ waits: true })
  })

  test('do not let a claim be committed without waiting for the disk', async ({ database, sluice, queue }) => {
    await put(sluice, queue, [1])
    const client = await database.pool.connect()
    try {
      await client.query('BEGIN; SET LOCAL synchronous_commit = off')
      await client.query('SELECT FROM sluice.claim($1)', [queue])
      expect((await client.query('SHOW synchronous_commit')).rows).toEqual([{ synchronous_commit: 'local' }])
    } finally {
      await client.query('ROLLBACK')
      client.release()
    }
  })
})
