import pg from 'pg'
import { beforeEach, describe, expect, onTestFinished, vi } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/sluice.ts'

// An enqueue through the driver's own client is a query of a class of ours. It must end as the driver's own do.

test('an error of the server names who has enqueued', async ({ database, sluice, queue }) => {
  const client = await connect(database)
  await client.query('BEGIN')
  await client.query(`SET LOCAL statement_timeout = '10ms'`)
  await using _lock = await lockMessages(database)
  const error: unknown = await enqueueHere().catch((reason: unknown) => reason)
  expect(error).toMatchObject({ code: '57014', stack: expect.stringContaining('enqueueHere') })

  async function enqueueHere(): Promise<void> {
    await sluice.enqueue(client, queue, {})
  }
})

test('the query_timeout of the application ends it', async ({ database, sluice, queue }) => {
  const client = await connect(database, { query_timeout: 100 })
  await client.query('BEGIN')
  await using _lock = await lockMessages(database)
  await expect(sluice.enqueue(client, queue, {})).rejects.toThrow('Query read timeout')
})

test('a query_timeout that is not reached leaves nothing behind', async ({ database, sluice, queue }) => {
  const client = await connect(database, { query_timeout: 3_600_000 })
  await client.query('BEGIN')
  const clear = vi.spyOn(globalThis, 'clearTimeout')
  onTestFinished(() => clear.mockRestore())
  const id = await sluice.enqueue(client, queue, {})
  expect(clear).toHaveBeenCalledOnce()
  await client.query('COMMIT')
  expect(await idsOf(database, queue)).toEqual([id])
})

test('a connection that breaks ends it', async ({ database, sluice, queue }) => {
  const client = await connect(database)
  client.on('error', () => undefined)
  await client.query('BEGIN')
  const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
  await using _lock = await lockMessages(database)
  const enqueued = sluice.enqueue(client, queue, {}).catch((reason: unknown) => reason)
  await database.sql('SELECT pg_terminate_backend($1)', [rows[0]?.pid])
  expect(await enqueued).toMatchObject({ code: '57P01' })
})

test('what traces the queries of the driver sees it begin and end', async ({ database, sluice, queue }) => {
  const client = await connect(database)
  await client.query('BEGIN')
  const seen: unknown[] = []
  const { query } = pg.Client.prototype
  onTestFinished(() => void Object.assign(pg.Client.prototype, { query }))
  // In the manner of the libraries that trace: a patched method, which puts its own function into what is called back.
  Object.assign(pg.Client.prototype, {
    query(this: pg.Client, traced: { text: string; callback: (...results: unknown[]) => void }) {
      const { text, callback } = traced
      traced.callback = (...results) => {
        seen.push(`${text.slice(0, 34)} answered`)
        callback(...results)
      }
      return Reflect.apply(query, this, [traced])
    },
  })
  await sluice.enqueue(client, queue, {})
  expect(seen).toEqual(['SELECT sluice_private.insert_plain answered'])
})

const WRAPPERS: Readonly<Record<string, (query: Query) => Query>> = {
  'sends a copy with a comment': (query) =>
    function (this: unknown, first, ...rest) {
      const commented = typeof first === 'string' ? `${first}/*c*/` : { ...first, text: `${first?.text}/*c*/` }
      return Reflect.apply(query, this, [commented, ...rest])
    },
  'expects a promise': (query) =>
    function (this: unknown, ...args) {
      const answer = Reflect.apply(query, this, args)
      // The pool gives a callback.
      return typeof args.at(-1) === 'function' ? answer : (answer as Promise<unknown>).then((result) => result)
    },
  'awaits a promise': (query) =>
    async function (this: unknown, ...args) {
      return await Reflect.apply(query, this, args)
    },
}

describe.for(Object.entries(WRAPPERS))('where a library has put a method in place that %s', ([, wrap]) => {
  beforeEach(() => {
    const { query } = pg.Client.prototype
    Object.assign(pg.Client.prototype, { query: wrap(query as Query) })
    onTestFinished(() => void Object.assign(pg.Client.prototype, { query }))
  })

  test('enqueues, refusals and batches are what they are', async ({ database, sluice, queue }) => {
    const client = await connect(database)
    await client.query('BEGIN')
    const ids = await Promise.all([1, 2].map((n) => sluice.enqueue(client, queue, { n })))
    await client.query('COMMIT')
    ids.push(await sluice.enqueue(sluice.ownTransaction, queue, { n: 3 }))
    expect(await idsOf(database, queue)).toEqual(ids)

    await client.query(`BEGIN; SET LOCAL statement_timeout = '10ms'`)
    {
      await using _lock = await lockMessages(database)
      await expect(sluice.enqueue(client, queue, {})).rejects.toMatchObject({ code: '57014' })
    }
    await client.query('ROLLBACK')

    const handled: unknown[] = []
    await sluice
      .pipeline(queue, { batchSize: 2 })
      .handle(({ payload }) => void handled.push(payload))
      .runOnce()
    expect(handled).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    expect(await idsOf(database, queue)).toEqual([])
  })
})

type Query = (this: unknown, first?: string | { readonly text: string }, ...rest: unknown[]) => unknown

test('enqueues that are not awaited come one after another', async ({ database, sluice, queue }) => {
  const client = await connect(database)
  await client.query('BEGIN')
  const ids = await Promise.all([1, 2, 3].map((n) => sluice.enqueue(client, queue, { n })))
  const none = sluice.enqueue(client, queue, 'x', { orderingKey: 'é'.repeat(10) })
  expect(await idsOf(database, queue)).toEqual([])
  ids.push(await none)
  await client.query('COMMIT')
  expect(await idsOf(database, queue)).toEqual(ids)
})

async function connect({ url }: TestDatabase, config: pg.ClientConfig = {}): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, ...config })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}

/** Until its end nobody can enqueue. */
async function lockMessages({ pool }: TestDatabase): Promise<AsyncDisposable> {
  const client = await pool.connect()
  await client.query('BEGIN; LOCK TABLE sluice.message IN SHARE MODE')
  return {
    [Symbol.asyncDispose]: async () => {
      await client.query('ROLLBACK')
      client.release()
    },
  }
}

async function idsOf({ sql }: TestDatabase, queue: string): Promise<readonly string[]> {
  const rows = await sql<{ id: string }>('SELECT id::text FROM sluice.message WHERE queue = $1 ORDER BY id', [queue])
  return rows.map(({ id }) => id)
}
