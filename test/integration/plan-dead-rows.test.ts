import pg from 'pg'
import { describe, expect } from 'vitest'
import { executeOn } from '../../src/connection/open-client.ts'
import { type Claim, claim, type PriorityFloor } from '../../src/table/claim.ts'
import { claimSlots } from '../../src/table/claim-ordered.ts'
import { ensureSlots } from '../../src/table/lanes.ts'
import { ackMessages } from '../../src/table/settle.ts'
import { bottomOf, keysOf } from '../support/claim-session.ts'
import { explain, recorded } from '../support/explain.ts'
import { test as base } from '../support/test.ts'

const DEAD = 100_000

/** A database in which an idle snapshot has been open for as long as the messages are there. */
const test = base.extend('pinned', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const [client, idle] = [
    new pg.Client({ connectionString: database.url }),
    new pg.Client({ connectionString: database.url }),
  ]
  await Promise.all([client.connect(), idle.connect()])
  onCleanup(async () => void (await Promise.all([client.end(), idle.end()])))
  await idle.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
  await idle.query('SELECT count(*) FROM sluice.message')
  return { client, execute: executeOn(client) }
})

/** Puts `DEAD` messages into a queue and 200 behind them; returns the ids of the former. */
async function fill(client: pg.Client, queue: string, key: string | null): Promise<readonly string[]> {
  const { rows } = await client.query<{ id: string }>(
    `INSERT INTO sluice.message (queue, ordering_key, due_at, payload)
     SELECT $1, $2, clock_timestamp() - interval '1 hour' + n * interval '1 millisecond', '{}'
     FROM generate_series(1, $3::integer + 200) n ORDER BY n
     RETURNING id::text AS id`,
    [queue, key, DEAD],
  )
  return rows.slice(0, DEAD).map(({ id }) => id)
}

describe('P6: 100,000 dead rows that a snapshot keeps', () => {
  test('cost a claim with a floor nothing, and one without a floor very much', async ({ pinned }) => {
    const { client, execute } = pinned
    const ids = await fill(client, 'unkeyed', null)
    const buffersOf = async (floors: readonly PriorityFloor[]) =>
      (await explain(client, await recorded((send) => claim(send, 'unkeyed', floors, 100)))).buffers
    const before = await buffersOf(bottomOf(5))
    await ackMessages(execute, 'unkeyed', ids.slice(0, -1))
    const last = (await inTransaction(client, () => claim(execute, 'unkeyed', bottomOf(5), 1))).rows[0]!
    await ackMessages(execute, 'unkeyed', ids.slice(-1))

    const floored = await buffersOf([{ priority: 5, dueUs: last.dueUs, id: last.id }])
    expect(floored).toBeLessThanOrEqual(before + 20)
    expect(await buffersOf(bottomOf(5))).toBeGreaterThan(before + DEAD / 200)
  })

  test('cost a claim of a hot key with a floor nothing, and one without a floor very much', async ({
    database,
    pinned,
  }) => {
    const { client, execute } = pinned
    const { same, slot } = await keysOf(database)
    await ensureSlots(execute, 'keyed', [slot])
    const ids = await fill(client, 'keyed', same[0])
    const buffersOf = async (id: string) =>
      (await explain(client, await recorded((send) => claimSlots(send, 'keyed', [{ slot, id }], 100)))).buffers
    const before = await buffersOf('0')
    await ackMessages(execute, 'keyed', ids)
    const { firstLive } = await inTransaction(client, () => claimSlots(execute, 'keyed', [{ slot, id: '0' }], 1))

    expect(await buffersOf(firstLive.get(slot)!)).toBeLessThanOrEqual(before + 20)
    expect(await buffersOf('0')).toBeGreaterThan(before + DEAD / 200)
  })
})

async function inTransaction<T extends Claim>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('BEGIN')
  const result = await work()
  await client.query('ROLLBACK')
  return result
}
