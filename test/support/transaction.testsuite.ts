import { describe, expect } from 'vitest'
import { appendMany, appendOne } from '../../src/enqueue/append.ts'
import { enqueueMany, enqueueOne } from '../../src/enqueue/enqueue.ts'
import { executorOf } from '../../src/enqueue/transaction.ts'
import { statement } from '../../src/table/statement.ts'
import { enqueueContext } from './enqueue-context.ts'
import { ODD_PAYLOADS } from './odd-payloads.ts'
import { sleepOn } from './processes/sleeper.ts'
import type { TestDatabase } from './servers/database.ts'
import { test as base } from './test.ts'

/** How a client connects, and how its transactions are used. */
export interface TransactionClient<Client> {
  connect(url: string): Client | Promise<Client>
  /** Commits when `work` returns, rolls back when it throws. */
  begin(client: Client, work: (tx: unknown) => Promise<void>): Promise<unknown>
  /** What has the shape of the client, and no transaction. */
  outside(client: Client): readonly unknown[]
  close(client: Client): Promise<unknown>
}

const context = { ...enqueueContext(), streams: undefined }
let queues = 0

/** What every accepted client must do. */
export function describeTransaction<Client>(
  name: string,
  { connect, begin, outside, close }: TransactionClient<Client>,
): void {
  const test = base
    .extend('client', async ({ database }, { onCleanup }) => {
      const client = await connect(database.url)
      onCleanup(() => close(client).then(() => undefined))
      return client
    })
    .extend('queue', () => `clients.${++queues}`)

  describe(name, () => {
    test('enqueues what is seen if its transaction commits, and not before', async ({ client, database, queue }) => {
      let id = ''
      await begin(client, async (tx) => {
        id = await enqueueOne(context, tx, queue, { n: 1 }, { type: 'test.happened', priority: 3 })
        expect(await idsOf(database, queue)).toEqual([])
      })
      expect(await idsOf(database, queue)).toEqual([id])
    })

    test('enqueues nothing if its transaction rolls back', async ({ client, database, queue }) => {
      await expect(
        begin(client, async (tx) => {
          await enqueueOne(context, tx, queue, { n: 1 })
          throw new Error('changed my mind')
        }),
      ).rejects.toThrow('changed my mind')
      expect(await idsOf(database, queue)).toEqual([])
    })

    test('enqueues 5,000 messages in one statement, in order', async ({ client, database, queue }) => {
      const messages = Array.from({ length: 5_000 }, (_, n) => ({ payload: { n }, priority: n % 10 }))
      let ids: string[] = []
      await begin(client, async (tx) => {
        ids = await enqueueMany(context, tx, queue, messages)
      })
      const rows = await database.sql<{ id: string; n: number }>(
        `SELECT id, (payload->>'n')::integer AS n FROM sluice.message WHERE queue = $1 ORDER BY id`,
        [queue],
      )
      expect(rows).toEqual(ids.map((id, n) => ({ id, n })))
      // The rows of one statement share its command number.
      expect(
        await database.sql('SELECT DISTINCT xmin::text, cmin::text FROM sluice.message WHERE queue = $1', [queue]),
      ).toHaveLength(1)
    })

    test('keeps odd payloads and headers as they are', async ({ client, database, queue }) => {
      await begin(client, async (tx) => {
        await enqueueMany(
          context,
          tx,
          queue,
          ODD_PAYLOADS.map((payload) => ({ payload, headers: { odd: payload as never } })),
        )
      })
      const rows = await database.sql<{ payload: string; headers: string }>(
        'SELECT payload::text, headers::text FROM sluice.message WHERE queue = $1 ORDER BY id',
        [queue],
      )
      expect(rows.map(({ payload }): unknown => JSON.parse(payload))).toStrictEqual(ODD_PAYLOADS)
      expect(rows.map(({ headers }) => JSON.parse(headers).odd)).toStrictEqual(ODD_PAYLOADS)
    })

    test('enqueues one message with every option, with none, and of null', async ({ client, database, queue }) => {
      const dueAt = new Date('2031-02-03T04:05:06.789Z')
      const options = { type: 'a.b', schemaVersion: 2, headers: { é: ['"', 1, null] }, orderingKey: 'k', priority: 0 }
      const ids: string[] = []
      await begin(client, async (tx) => {
        ids.push(await enqueueOne(context, tx, queue, { all: '?$1' }, { ...options, dueAt, maxAttempts: 3 }))
        ids.push(await enqueueOne(context, tx, queue, null))
        ids.push(await enqueueOne(context, tx, queue, 'later', { delay: '1h' }))
      })
      const rows = await database.sql(
        `SELECT id, payload, type, schema_version, headers, ordering_key, priority, max_attempts,
                due_at > clock_timestamp() + interval '59 minutes' AS later, due_at = $2::timestamptz AS at
         FROM sluice.message WHERE queue = $1 ORDER BY id`,
        [queue, dueAt],
      )
      const plain = { type: null, schema_version: 1, headers: {}, ordering_key: null, priority: 5, max_attempts: null }
      expect(rows).toEqual([
        {
          id: ids[0],
          payload: { all: '?$1' },
          type: 'a.b',
          schema_version: 2,
          headers: { é: ['"', 1, null] },
          ordering_key: 'k',
          priority: 0,
          max_attempts: 3,
          later: true,
          at: true,
        },
        { id: ids[1], payload: null, ...plain, later: false, at: false },
        { id: ids[2], payload: 'later', ...plain, later: true, at: false },
      ])
    })

    test('appends to a stream, with positions as numbers that ascend', async ({ client, database, queue }) => {
      await database.sql('SELECT sluice.create_stream($1)', [queue])
      let positions: number[] = []
      await begin(client, async (tx) => {
        const options = { orderingKey: 'é', type: 'a.b', schemaVersion: 2, headers: { é: ['"', null] } }
        const one = await appendOne(context, tx, queue, { all: '?$1' }, options)
        const events = [
          { payload: null },
          { payload: 'x', ...options },
          ...ODD_PAYLOADS.map((payload) => ({ payload })),
        ]
        positions = [one, ...(await appendMany(context, tx, queue, events))]
        expect(await eventsOf(database, queue)).toEqual([])
      })
      const labelled = { ordering_key: 'é', type: 'a.b', schema_version: 2, headers: { é: ['"', null] } }
      const plain = { ordering_key: null, type: null, schema_version: 1, headers: {} }
      expect(await eventsOf(database, queue)).toStrictEqual([
        { position: positions[0], payload: { all: '?$1' }, ...labelled },
        { position: positions[1], payload: null, ...plain },
        { position: positions[2], payload: 'x', ...labelled },
        ...ODD_PAYLOADS.map((payload, at) => ({ position: positions[at + 3], payload, ...plain })),
      ])
    })

    test('is refused outside a transaction', async ({ client, database, queue }) => {
      for (const tx of outside(client)) {
        await expect(appendOne(context, tx, queue, {})).rejects.toMatchObject({ code: 'NOT_IN_TRANSACTION' })
        await expect(enqueueOne(context, tx, queue, {})).rejects.toMatchObject({
          code: 'NOT_IN_TRANSACTION',
          message: expect.stringMatching(/^tx: expected an open transaction, received .+\. Use .+ownTransaction$/),
        })
      }
      expect(await idsOf(database, queue)).toEqual([])
    })

    test('is refused once its transaction has ended', async ({ client, database, queue }) => {
      const ended: unknown[] = []
      await begin(client, async (tx) => void ended.push(tx))
      await begin(client, async (tx) => {
        ended.push(tx)
        throw new Error('changed my mind')
      }).catch(() => undefined)
      expect(ended).toHaveLength(2)
      for (const tx of ended) {
        await expect(enqueueOne(context, tx, queue, {})).rejects.toMatchObject({
          code: 'NOT_IN_TRANSACTION',
          message: expect.stringContaining(', and await this call before its COMMIT, or pass'),
        })
      }
      expect(await idsOf(database, queue)).toEqual([])
    })

    test('is refused once its transaction is aborted', async ({ client, database, queue }) => {
      let refusal: unknown
      await begin(client, async (tx) => {
        const execute = await executorOf(tx)
        await expect(execute(DIVIDE, [1, 0])).rejects.toThrow()
        refusal = await enqueueOne(context, tx, queue, {}).catch((error: unknown) => error)
      }).catch(() => undefined)
      expect(refusal).toMatchObject({ code: 'NOT_IN_TRANSACTION', message: expect.stringContaining('aborted') })
      expect(await idsOf(database, queue)).toEqual([])
    })

    test('wakes a sleeper after the commit', async ({ client, database, queue }) => {
      await using sleeper = await sleepOn(database.url, queue)
      await begin(client, async (tx) => {
        await enqueueMany(context, tx, queue, [{ payload: 1 }, { payload: 2 }])
        expect(await sleeper.notifications()).toEqual([])
      })
      expect(await sleeper.notifications()).toEqual([queue])
    })

    test('gives rows for every command, with parameters in any order and columns by their names', async ({
      client,
      queue,
    }) => {
      await begin(client, async (tx) => {
        const id = await enqueueOne(context, tx, queue, { n: 1 })
        const execute = await executorOf(tx)
        expect(await execute(ECHO, ['one', 'two?', ['a', 'b,"c"', '$1']])).toEqual([
          { second: 'two?', first_again: 'one', camelCase: '$1?', size: 3, last: '$1' },
        ])
        expect(await execute(UPDATE, [queue, 9])).toEqual([{ id, new_priority: '9' }])
        expect(await execute(DELETE, [queue])).toEqual([{ id }])
        expect(await execute(DELETE, [queue])).toEqual([])
      })
    })
  })
}

const DIVIDE = statement('divide', 'SELECT $1::integer / $2::integer AS quotient')
const ECHO = statement(
  'echo',
  `SELECT $2::text AS second, $1::text AS first_again, '$'::text || length($1::text) - 2 || '?' AS "camelCase",
          cardinality($3::text[]) AS size, ($3::text[])[3] AS last`,
)
const UPDATE = statement(
  'update',
  'UPDATE sluice.message SET priority = $2::smallint WHERE queue = $1::text RETURNING id::text AS id, priority::text AS new_priority',
)
const DELETE = statement('delete', 'DELETE FROM sluice.message WHERE queue = $1::text RETURNING id::text AS id')

async function idsOf(database: TestDatabase, queue: string): Promise<readonly string[]> {
  const rows = await database.sql<{ id: string }>('SELECT id FROM sluice.message WHERE queue = $1 ORDER BY id', [queue])
  return rows.map(({ id }) => id)
}

/** Payloads as texts, because the driver's parser is not what is tried. */
async function eventsOf(database: TestDatabase, stream: string) {
  const rows = await database.sql<{ position: string; payload: string }>(
    `SELECT e.position, e.payload::text AS payload, e.ordering_key, e.type, e.schema_version, e.headers
     FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id WHERE s.stream = $1 ORDER BY e.position`,
    [stream],
  )
  return rows.map((row) => ({ ...row, position: Number(row.position), payload: JSON.parse(row.payload) as unknown }))
}
