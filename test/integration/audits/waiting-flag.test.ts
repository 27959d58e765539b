import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { NO_POLL, raisedFlag } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

/** Far below the poll, far above what a busy machine needs. */
const LATEST_MS = 20_000
const ROUNDS = 150

describe('the waiting flag', () => {
  test.for([
    { consumers: 1, writers: 3, concurrency: 3 },
    { consumers: 2, writers: 4, concurrency: 1 },
    { consumers: 3, writers: 5, concurrency: 2 },
  ])(
    'P5: loses no wake-up without the poll: $consumers consumers, $writers writers',
    async (trial, { database, queue }) => {
      const handled: string[] = []
      for (let at = 0; at < trial.consumers; at++) {
        startTestSluice(database, { pollInterval: NO_POLL })
          .pipeline(queue, { concurrency: trial.concurrency, batchSize: 2 })
          .handle((message) => void handled.push(message.id))
          .subscribe()
      }
      await raisedFlag(database, queue)
      const writers = await Promise.all(Array.from({ length: trial.writers }, () => connect(database)))
      const committed: string[] = []
      // Quiet between rounds: in steady traffic the next message would hide a lost wake-up.
      for (let round = 1; round <= ROUNDS; round++) {
        const ids = await Promise.all(writers.map((writer) => write(writer, queue)))
        committed.push(...ids.flat())
        const what = `round ${round}: ${committed.length} messages, of which ${handled.length} were handled`
        await waitFor(() => handled.length >= committed.length, { what, timeoutMs: LATEST_MS })
      }
      expect(handled.toSorted()).toEqual(committed.toSorted())
      expect(committed.length).toBeGreaterThan(ROUNDS)
    },
  )
})

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  onTestFinished(() => client.end())
  await client.connect()
  return client
}

/** A transaction of random length with one to three messages. Returns the ids of those that exist. */
async function write(client: pg.Client, queue: string): Promise<string[]> {
  const ids: string[] = []
  await client.query('SELECT pg_sleep($1)', [random(0.004)])
  await client.query('BEGIN')
  for (let count = 1 + Math.floor(random(3)); count > 0; count--) {
    const { rows } = await client.query<{ id: string }>(`SELECT sluice.enqueue($1, '{}') AS id`, [queue])
    ids.push(rows[0]?.id ?? '')
    await client.query('SELECT pg_sleep($1)', [random(0.006)])
  }
  const keep = Math.random() >= 0.1
  await client.query(keep ? 'COMMIT' : 'ROLLBACK')
  return keep ? ids : []
}

function random(most: number): number {
  return Math.random() * most
}
