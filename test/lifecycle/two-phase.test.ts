import pg from 'pg'
import { afterAll, beforeAll, describe, expect } from 'vitest'
import { EmbeddedServer } from '../../faults/environment/embedded-server.ts'
import { migrate } from '../../src/migrate/migrate.ts'
import { sleepOn } from '../support/processes/sleeper.ts'
import { test as base, startTestSluice } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

/** A server that takes PREPARE TRANSACTION, for all tests of this file. */
let address = ''
let server: EmbeddedServer

beforeAll(async () => {
  server = await EmbeddedServer.create({ max_prepared_transactions: 5 })
  await server.start()
  await migrate(server.url)
  address = server.url
})

afterAll(() => server.remove())

/** `test` with a client of the application's in a transaction on that server. */
const test = base.extend('client', async ({ queue: _ }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: address })
  await client.connect()
  onCleanup(() => client.end())
  await client.query('BEGIN')
  return client
})

describe('a transaction that has enqueued and is to be prepared', () => {
  test('is prepared while nobody sleeps', async ({ client, queue }) => {
    const id = await startTestSluice({ url: address }).enqueue(client, queue, 1)
    await client.query(`PREPARE TRANSACTION '${queue}'`)
    expect(await idsOf(client, queue)).toEqual([])
    await client.query(`COMMIT PREPARED '${queue}'`)
    expect(await idsOf(client, queue)).toEqual([id])
  })

  test('is refused while somebody sleeps, and the message with it', async ({ client, queue }) => {
    await using _ = await sleepOn(address, queue)
    await startTestSluice({ url: address }).enqueue(client, queue, 1)
    await expect(client.query(`PREPARE TRANSACTION '${queue}'`)).rejects.toMatchObject({
      code: '0A000',
      message: expect.stringContaining('NOTIFY'),
    })
    expect(await idsOf(client, queue)).toEqual([])
  })

  test.for(['the library', 'SQL', 'many at once'])(
    'is prepared all the same if it has switched notifications off, and a worker that sleeps finds it: %s',
    async (by, { client, queue }) => {
      const sluice = startTestSluice({ url: address })
      const handled: unknown[] = []
      sluice
        .pipeline(queue)
        .handle(({ payload }) => void handled.push(payload))
        .subscribe()
      await waitFor(() => isAsleep(queue), { what: 'the worker to sleep' })
      await client.query('SET LOCAL sluice.notify = off')
      if (by === 'SQL') await client.query(`SELECT sluice.enqueue($1, '1')`, [queue])
      else if (by === 'the library') await sluice.enqueue(client, queue, 1)
      else await sluice.enqueueMany(client, queue, [{ payload: 1 }])
      await client.query(`PREPARE TRANSACTION '${queue}'`)
      await client.query(`COMMIT PREPARED '${queue}'`)
      await waitFor(() => handled.length === 1, { what: 'the message' })
    },
  )
})

async function idsOf(client: pg.Client, queue: string): Promise<readonly unknown[]> {
  const { rows } = await client.query<{ id: string }>('SELECT id FROM sluice.message WHERE queue = $1', [queue])
  return rows.map(({ id }) => id)
}

async function isAsleep(queue: string): Promise<boolean> {
  const client = new pg.Client({ connectionString: address })
  await client.connect()
  try {
    const { rows } = await client.query<{ sleeps: boolean }>(
      'SELECT NOT pg_try_advisory_xact_lock_shared(746501, hashtext($1)) AS sleeps',
      [queue],
    )
    return rows[0]?.sleeps === true
  } finally {
    await client.end()
  }
}
