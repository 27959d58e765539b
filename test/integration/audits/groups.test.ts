import type pg from 'pg'
import { describe, expect } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { test } from '../../support/streams.ts'

const WRITERS = 6
const TRANSACTIONS = 25
const KEYS = 6

describe('three processes of a group, while writers append in transactions that last, roll back and use savepoints', () => {
  test('handle each committed event once in effect, those of a key in order', async ({ database, stream }) => {
    await database.sql('CREATE TABLE effect (id bigint GENERATED ALWAYS AS IDENTITY, position bigint, key text)')
    const random = randomFrom(1)
    const pipelines = Array.from({ length: 3 }, () => startMember(database, stream, random))
    const written = await Promise.all(
      Array.from({ length: WRITERS }, (_, writer) => writeAll(database, stream, `k${writer}`, random)),
    )
    const committed = written.flat().toSorted(ascending)
    await untilHandled(database, committed.length)
    await Promise.all(pipelines.map((pipeline) => pipeline.drain()))
    const effects = await database.sql<Effect>('SELECT position::int, key FROM effect ORDER BY id')
    expect(effects.map(({ position }) => position).toSorted(ascending)).toEqual(committed)
    for (const [key, positions] of byKey(effects)) expect(positions, key).toEqual(positions.toSorted(ascending))
    expect(await database.sql('SELECT FROM sluice.message')).toEqual([])
  })
})

interface Effect {
  readonly position: number
  readonly key: string
}

/** Its handler fails for one event in seven, after it has written. */
function startMember(database: TestDatabase, stream: string, random: () => number) {
  const retry = { kind: 'fixed', delay: '2ms' } as const
  return startTestSluice(database)
    .pipeline(stream, { group: 'all', concurrency: 2, batchSize: 7, maxAttempts: 1_000, retry })
    .handle(async ({ position, orderingKey }, { tx }) => {
      await tx.query('INSERT INTO effect (position, key) VALUES ($1, $2)', [position, orderingKey])
      if (random() < 0.15) raise('no luck')
    })
    .start()
}

/** Returns the positions of what it has committed. */
async function writeAll(database: TestDatabase, stream: string, prefix: string, random: () => number) {
  const committed: number[] = []
  for (let done = 0; done < TRANSACTIONS; done += 1) {
    const client = await database.pool.connect()
    try {
      committed.push(...(await writeSome(client, stream, `${prefix}.${Math.floor(random() * KEYS)}`, random)))
    } finally {
      client.release()
    }
  }
  return committed
}

async function writeSome(client: pg.PoolClient, stream: string, key: string, random: () => number) {
  const positions: number[] = []
  await client.query('BEGIN')
  for (let n = Math.ceil(random() * 4); n > 0; n -= 1) {
    const isUndone = random() < 0.2
    if (isUndone) await client.query('SAVEPOINT s')
    const { rows } = await client.query("SELECT sluice.append($1, '{}', $2)::int AS position", [stream, key])
    if (isUndone) await client.query('ROLLBACK TO s')
    else positions.push(rows[0].position)
  }
  if (random() < 0.3) await client.query('SELECT pg_sleep($1)', [random() / 20])
  const isCommitted = random() < 0.9
  await client.query(isCommitted ? 'COMMIT' : 'ROLLBACK')
  return isCommitted ? positions : []
}

async function untilHandled(database: TestDatabase, count: number): Promise<void> {
  const effects = () => database.sql<{ count: number }>('SELECT count(*)::int AS count FROM effect')
  await expect
    .poll(async () => (await effects())[0]?.count, { timeout: 60_000, interval: 50 })
    .toBeGreaterThanOrEqual(count)
}

function byKey(effects: readonly Effect[]): ReadonlyMap<string, readonly number[]> {
  const found = Map.groupBy(effects, ({ key }) => key)
  return new Map([...found].map(([key, of]) => [key, of.map(({ position }) => position)]))
}

function ascending(a: number, b: number): number {
  return a - b
}

/** A generator of Lehmer's: the same sequence for the same seed. */
function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}
