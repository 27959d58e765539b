import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { EnqueueResult, OnDuplicate } from '../../../src/index.ts'
import { ON_DUPLICATE } from '../../../src/message-options.ts'
import { ask, KEY_STATES, type Stage } from '../../support/dedupe/key-states.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { openPool } from '../../support/servers/pool.ts'
import { test as base } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const WRITERS = 32

const test = base.extend('writers', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const pool = openPool({ connectionString: database.url, max: WRITERS })
  onCleanup(() => pool.end())
  return pool
})

/** What the writers that committed were answered. Each fourth rolls back. What cannot be serialized is begun again. */
async function writeAll(
  stage: Stage,
  writers: pg.Pool,
  policy: OnDuplicate,
  level = 'READ COMMITTED',
): Promise<readonly EnqueueResult[]> {
  const answers = await Promise.all(
    Array.from({ length: WRITERS }, async (_, n) => {
      const client = await writers.connect()
      try {
        for (;;) {
          const written = await write(stage, client, { n, policy, level })
          if (written !== undefined) return written
        }
      } finally {
        client.release()
      }
    }),
  )
  return answers.flat()
}

/** Undefined if it has to begin again; nothing if it has rolled back. */
async function write(
  stage: Stage,
  client: pg.PoolClient,
  { n, policy, level }: { readonly n: number; readonly policy: OnDuplicate; readonly level: string },
): Promise<readonly EnqueueResult[] | undefined> {
  const end = n % 4 === 0 ? 'ROLLBACK' : 'COMMIT'
  await client.query(`BEGIN ISOLATION LEVEL ${level}`)
  try {
    const result = await ask(stage, n, policy, undefined, client)
    await client.query(end)
    return end === 'COMMIT' ? [result] : []
  } catch (error) {
    await client.query('ROLLBACK')
    if (!(error instanceof pg.DatabaseError && error.code === '40001')) throw error
    return undefined
  }
}

function counted(results: readonly EnqueueResult[]): Readonly<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { outcome } of results) counts[outcome] = (counts[outcome] ?? 0) + 1
  return counts
}

const COMMITTED = 24

/** What becomes of a key that is asked for 24 times: once added, or once more behind what is in hand. */
function wantedOf(policy: OnDuplicate, held: boolean): Readonly<Record<string, number>> {
  const again = { update: 'updated', requeue: 'updated', debounce: 'debounced' }[policy as string] ?? 'duplicate'
  if (!held) return { added: 1, [again]: COMMITTED - 1 }
  const queues = policy === 'requeue' || policy === 'debounce'
  return queues ? { requeued: 1, [again]: COMMITTED - 1 } : { duplicate: COMMITTED }
}

describe(`${WRITERS} writers of one key at a time`, () => {
  for (const held of ['nobody', 'in a transactional handler', 'in a claim'] as const) {
    test(`add it once, and wait for no handler: ${held}`, async ({ database, sluice, queue, writers }) => {
      for (const policy of ON_DUPLICATE) {
        const stage = { database, sluice, queue: `${queue}.${policy}` }
        await KEY_STATES[held](stage, policy)
        const before = (await payloadsOf(database, stage.queue)).length
        expect({ policy, ...counted(await writeAll(stage, writers, policy)) }).toEqual({
          policy,
          ...wantedOf(policy, held !== 'nobody'),
        })
        const after = await payloadsOf(database, stage.queue)
        const queues = held === 'nobody' || policy === 'requeue' || policy === 'debounce'
        expect(after).toHaveLength(before + (queues ? 1 : 0))
        // Of one that committed.
        if (queues) expect(Number(after.at(-1)) % 4).toBeGreaterThan(0)
      }
    })
  }

  for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
    test(`do so in ${level}, if they begin again after 40001`, async ({ database, sluice, queue, writers }) => {
      for (const policy of ['reject', 'requeue'] as const) {
        const stage = { database, sluice, queue: `${queue}.${policy}` }
        expect(counted(await writeAll(stage, writers, policy, level))).toEqual(wantedOf(policy, false))
        expect(await payloadsOf(database, stage.queue)).toHaveLength(1)
      }
    })
  }
})

describe('a writer', () => {
  test('waits for another one of its key, and takes what that leaves', async ({ database, sluice, queue }) => {
    for (const [end, outcome] of [
      ['COMMIT', 'duplicate'],
      ['ROLLBACK', 'added'],
    ] as const) {
      const stage = { database, sluice, queue: `${queue}.${end}` }
      const [first, second] = await clients(database, 2)
      await first!.query('BEGIN')
      await ask(stage, 1, 'reject', undefined, first)
      await second!.query('BEGIN')
      const waiting = ask(stage, 2, 'reject', undefined, second)
      await untilWaits(database, second!)
      await first!.query(end)
      expect(await waiting).toMatchObject({ outcome })
      await second!.query('COMMIT')
      expect(await payloadsOf(database, stage.queue)).toEqual([end === 'COMMIT' ? 1 : 2])
    }
  })

  test('does not wait to reject what has been committed, also if another one changes it', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'reject')
    const [other, writer] = await clients(database, 2)
    await other!.query('BEGIN')
    await ask(stage, 2, 'update', undefined, other)
    await writer!.query('BEGIN')
    expect(await ask(stage, 3, 'reject', undefined, writer)).toMatchObject({ outcome: 'duplicate' })
  })

  test('takes the key of an expired message whose lease has run out, and leaves its row to a late worker', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await KEY_STATES['expired, its lease run out'](stage, 'reject')
    const [writer, worker] = await clients(database, 2)
    await worker!.query('BEGIN')
    await worker!.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE', [queue])
    await writer!.query('BEGIN')
    expect(await ask(stage, 2, 'reject', undefined, writer)).toMatchObject({ outcome: 'duplicate', state: 'in_flight' })
    await worker!.query('ROLLBACK')
    expect(await ask(stage, 2, 'reject', undefined, writer)).toMatchObject({ outcome: 'added' })
    const locked = await worker!.query('SELECT FROM sluice.message WHERE queue = $1 FOR UPDATE NOWAIT', [queue])
    expect(locked.rowCount).toBe(1)
  })

  test('fails with 40001 in a snapshot that is older than the message', async ({ database, sluice, queue }) => {
    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      const stage = { database, sluice, queue: `${queue}.${level.slice(0, 3)}` }
      const [writer] = await clients(database, 1)
      await writer!.query(`BEGIN ISOLATION LEVEL ${level}; SELECT 1 FROM sluice.queue`)
      await ask(stage, 1, 'reject')
      await expect(ask(stage, 2, 'reject', undefined, writer)).rejects.toMatchObject({ code: '40001' })
    }
  })

  test('that updates a message lets claims of other keys of its slot pass, and is claimed when it commits', async ({
    database,
    sluice,
    queue,
  }) => {
    const stage = { database, sluice, queue }
    await ask(stage, 1, 'requeue')
    // The first claim makes the rows of the slots.
    await (await sluice.claim(queue))?.release()
    const [writer] = await clients(database, 1)
    await writer!.query('BEGIN')
    expect(await ask(stage, 2, 'requeue', undefined, writer)).toMatchObject({ outcome: 'updated' })
    const handled: unknown[] = []
    const { promise: seen, resolve } = Promise.withResolvers<void>()
    sluice
      .pipeline(queue, { mode: 'leased' })
      .handle(({ payload }) => {
        handled.push(payload)
        if (handled.length === 2) resolve()
      })
      .start()
    await sluice.enqueue(sluice.ownTransaction, queue, 'other', { orderingKey: 'another slot' })
    await waitFor(() => handled.includes('other'), { what: 'the message of another slot to be handled' })
    expect(handled).toEqual(['other'])
    await writer!.query('COMMIT')
    await seen
    expect(handled).toEqual(['other', 2])
  })
})

async function clients(database: TestDatabase, count: number): Promise<readonly pg.Client[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      const client = new pg.Client({ connectionString: database.url })
      await client.connect()
      onTestFinished(() => client.end())
      return client
    }),
  )
}

/** Until the session waits for a lock. */
async function untilWaits(database: TestDatabase, client: pg.Client): Promise<void> {
  const pid = 'processID' in client ? client.processID : 0
  const waits = () => database.sql(`SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event_type = 'Lock'`, [pid])
  await waitFor(async () => (await waits()).length === 1, { what: 'the second writer to wait' })
}
