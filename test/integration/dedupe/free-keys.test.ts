import { describe, expect } from 'vitest'
import type { Sluice } from '../../../src/sluice.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { test } from '../../support/sluice.ts'

/** The outcome of an enqueue with a key that is kept for an hour. */
async function enqueue(
  sluice: Sluice,
  queue: string,
  key: string,
  onDuplicate: 'reject' | 'throttle' = 'reject',
): Promise<string> {
  return (await sluice.enqueue(sluice.ownTransaction, queue, 1, { dedupe: { key, for: '1h', onDuplicate } })).outcome
}

describe('operate.queues.freeKeys', () => {
  test('frees what is kept after success and by throttle, and not what a message has', async ({ sluice, queue }) => {
    await enqueue(sluice, queue, 'done')
    await sluice.pop(queue)
    await enqueue(sluice, queue, 'done too')
    await sluice.pop(queue)
    await enqueue(sluice, queue, 'throttled', 'throttle')
    await sluice.operate.queues.clear(queue)
    await enqueue(sluice, queue, 'waits')
    expect(await enqueue(sluice, queue, 'done')).toBe('duplicate')
    expect(await sluice.operate.queues.freeKeys(queue, { dryRun: true })).toBe(3)
    expect(await sluice.operate.queues.freeKeys(queue)).toBe(3)
    expect(await sluice.operate.queues.freeKeys(queue)).toBe(0)
    for (const key of ['done', 'done too', 'throttled']) expect(await enqueue(sluice, queue, key)).toBe('added')
    expect(await enqueue(sluice, queue, 'waits')).toBe('duplicate')
  })

  test('leaves a key whose message has expired while somebody has it in hand', async ({ sluice, queue, database }) => {
    const dedupe = { key: 'k', for: '1h', onDuplicate: 'throttle' } as const
    await sluice.enqueue(sluice.ownTransaction, queue, 1, { ttl: '1h', dedupe })
    const expire = (lease: string, due: string) =>
      database.sql(
        `UPDATE sluice.message SET expires_at = clock_timestamp() - interval '1 s', lease = ${lease},
           due_at = clock_timestamp() + interval '${due}' WHERE queue = $1`,
        [queue],
      )
    const freed = async () => [
      await sluice.operate.queues.freeKeys(queue),
      await sluice.operate.messages.freeKey(queue, 'k'),
    ]
    // Under a lease.
    await expire('4294967297', '1 h')
    expect(await freed()).toEqual([0, 'taken'])
    // In the transaction of a batch.
    await expire('NULL', '-2 s')
    const batch = await database.pool.connect()
    try {
      await batch.query('BEGIN')
      await batch.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
      expect(await freed()).toEqual([0, 'taken'])
    } finally {
      await batch.query('ROLLBACK')
      batch.release()
    }
    // Under a lease that has run out, and whose worker may be late.
    await expire('4294967297', '-2 s')
    expect(await freed()).toEqual([1, 'free'])
  })

  test('goes through more keys than one step takes, and none of another queue', async ({ database, sluice, queue }) => {
    for (const name of [queue, `${queue}.other`])
      await database.sql(
        `WITH kept AS (
           INSERT INTO sluice.kept_key (queue, key, message_id, until)
           SELECT $1, 'key ' || s, s, now() + interval '1 hour' FROM generate_series(1, 2500) AS s RETURNING key, message_id
         ) INSERT INTO sluice.dedupe (queue, key, message_id) SELECT $1, key, message_id FROM kept`,
        [name],
      )
    expect(await sluice.operate.queues.freeKeys(queue)).toBe(2_500)
    expect(await sluice.operate.queues.freeKeys(`${queue}.other`, { dryRun: true })).toBe(2_500)
  })

  test('waits for no producer', async ({ database, sluice, queue }) => {
    await enqueue(sluice, queue, 'done')
    await sluice.pop(queue)
    const producer = await database.pool.connect()
    try {
      await producer.query('BEGIN')
      await producer.query(`SELECT FROM sluice.dedupe WHERE queue = '${queue}' FOR UPDATE`)
      expect(await sluice.operate.queues.freeKeys(queue)).toBe(0)
    } finally {
      await producer.query('ROLLBACK')
      producer.release()
    }
    expect(await sluice.operate.queues.freeKeys(queue)).toBe(1)
  })
})

test('sluice clear says how many keys are kept, and frees them when it is asked to', async ({
  database,
  sluice,
  queue,
}) => {
  const clear = (...args: string[]) => runCli(['clear', queue, ...args], { DATABASE_URL: database.url })
  await enqueue(sluice, queue, 'done')
  await sluice.pop(queue)
  await enqueue(sluice, queue, 'waits')
  expect(await clear('--yes')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Removed 1 message.\n'),
    stderr: expect.stringContaining('1 dedupe key is kept: see --free-keys.'),
  })
  expect(await clear('--yes', '--free-keys')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Freed 1 dedupe key.\n'),
    stderr: '',
  })
  expect(await clear('--free-keys', '--dry-run', '--yes')).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^No messages match\..*\nThere are no kept dedupe keys\.\n$/),
  })
  expect(await enqueue(sluice, queue, 'done')).toBe('added')
})
