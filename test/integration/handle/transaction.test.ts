import type { Generated } from 'kysely'
import { sql } from 'kysely'
import { describe, expect } from 'vitest'
import type { HandlerTransaction } from '../../../src/handle/transaction/handler-transaction.ts'
import { recordStatements } from '../../support/plans/statements.ts'
import { payloadsOf, untilEmpty } from '../../support/rows/rows.ts'
import { test as base, put } from '../../support/sluice.ts'
import { raise, Steps } from '../../support/steps.ts'

const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

const test = base.extend('notes', { scope: 'file' }, async ({ database }) => {
  await database.sql('CREATE TABLE note (id serial, queue text NOT NULL, text text NOT NULL)')
  return async (queue: string) => {
    const rows = await database.sql<{ text: string }>('SELECT text FROM note WHERE queue = $1 ORDER BY id', [queue])
    return rows.map(({ text }) => text)
  }
})

interface Tables {
  note: { id: Generated<number>; queue: string; text: string }
}

const INSERT = 'INSERT INTO note (queue, text) VALUES ($1, $2)'

const IGNORED_FAILURES: readonly (readonly [how: string, fail: (tx: HandlerTransaction) => unknown])[] = [
  ['awaited and swallowed', (tx) => tx.query('SELECT 1 / 0').catch(() => undefined)],
  ['not awaited', (tx) => void tx.query('SELECT 1 / 0')],
  ['called back', (tx) => tx.client.query('SELECT 1 / 0', () => undefined)],
  ['called back as the statement says', (tx) => tx.client.query(withCallback({ text: 'SELECT 1 / 0' }))],
  ['one of several in a query', (tx) => tx.query('SELECT 1; SELECT 1 / 0; SELECT 1').catch(() => undefined)],
  ['followed by others', (tx) => Promise.allSettled([tx.query('SELECT 1 / 0'), tx.query('SELECT 1')])],
]

/** As \`pg\` takes it, though its types do not say so. */
function withCallback<Config>(config: Config): Config {
  return { ...config, callback: () => undefined }
}

const UNAWAITED: readonly (readonly [how: string, write: (write: Writes) => unknown, count: number])[] = [
  ['an enqueue', ({ enqueue }) => void enqueue('one'), 1],
  ['an enqueue through sluice', ({ through }) => void through('one'), 1],
  ['two enqueues at once', ({ enqueue }) => void ['one', 'two'].map((payload) => enqueue(payload)), 2],
  ['two statements, one after the other', ({ note }) => void note('one').then(() => note('two')), 2],
  ['an enqueue after a statement', ({ note, enqueue }) => void note('one').then(() => enqueue('two')), 2],
  ['a statement of Kysely', ({ kysely }) => void kysely('one'), 1],
]

interface Writes {
  readonly enqueue: (payload: string) => Promise<unknown>
  readonly through: (payload: string) => Promise<unknown>
  readonly note: (text: string) => Promise<unknown>
  readonly kysely: (text: string) => Promise<unknown>
}

test.for(['transactional', 'leased'] as const)(
  'a query that was built and not run is no result: its message is tried again, %s',
  async (mode, { database, sluice, queue, notes }) => {
    const unrun = (tx: HandlerTransaction) => tx.kysely<Tables>().insertInto('note').values({ queue, text: 'unrun' })
    const handle = (tx: HandlerTransaction) => unrun(tx) as unknown as undefined
    const pipeline =
      mode === 'leased'
        ? sluice.pipeline(queue, { ...LATER, mode }).handle((_, { transaction }) => transaction(handle))
        : sluice.pipeline(queue, LATER).handle((_, { tx }) => handle(tx))
    await put(sluice, queue, ['a'])
    await pipeline.runOnce()
    const [message] = await database.sql('SELECT attempt, last_error FROM sluice.messages WHERE queue = $1', [queue])
    expect(message).toEqual({
      attempt: 1,
      last_error: expect.stringMatching(/received an InsertQueryBuilder\. Nothing has run the query/),
    })
    expect(await notes(queue)).toEqual([])
  },
)

describe('tx', () => {
  test('writes through query(), the pg client and kysely, in the transaction that removes the message', async ({
    database,
    sluice,
    queue,
    notes,
  }) => {
    const steps = new Steps()
    sluice.pipeline(queue).handle(steps.handle).subscribe()
    await put(sluice, queue, ['a'])
    const { context, end } = await steps.next()
    const { tx } = context
    await tx.query(INSERT, [queue, 'query'])
    await tx.client.query({ text: INSERT, values: [queue, 'client'] })
    const inserted = await tx
      .kysely<Tables>()
      .insertInto('note')
      .values({ queue, text: 'kysely' })
      .returning('text')
      .execute()
    expect(inserted).toEqual([{ text: 'kysely' }])
    const own = await tx
      .kysely<Tables>()
      .selectFrom('note')
      .select(['text'])
      .where('queue', '=', queue)
      .orderBy('id')
      .execute()
    expect(own.map(({ text }) => text)).toEqual(['query', 'client', 'kysely'])
    const updated = await tx
      .kysely<Tables>()
      .updateTable('note')
      .set({ text: 'changed' })
      .where('text', '=', 'query')
      .executeTakeFirst()
    expect(updated.numUpdatedRows).toBe(1n)
    const [mine] = (await tx.query('SELECT txid_current()::text AS id')).rows
    const [kyselys] = (await sql<{ id: string }>`SELECT txid_current()::text AS id`.execute(tx.kysely())).rows
    expect(kyselys).toEqual(mine)
    expect(await notes(queue)).toEqual([])
    end()
    await untilEmpty(database, queue)
    expect(await notes(queue)).toEqual(['changed', 'client', 'kysely'])
  })

  test.for(UNAWAITED)(
    'waits for %s that the handler did not await',
    async ([, write, count], { database, sluice, queue, notes, log }) => {
      const next = `${queue}.next`
      sluice
        .pipeline(queue)
        .handle((_, { tx, enqueue }) => {
          write({
            enqueue: (payload) => enqueue(next, payload),
            through: (payload) => sluice.enqueue(tx, next, payload),
            note: (text) => tx.query(INSERT, [queue, text]),
            kysely: (text) => tx.kysely<Tables>().insertInto('note').values({ queue, text }).execute(),
          })
        })
        .subscribe()
      await put(sluice, queue, ['a'])
      await log.first('batch.committed')
      const written = [...(await notes(queue)), ...(await payloadsOf(database, next))].sort()
      expect(written).toEqual(['one', 'two'].slice(0, count))
    },
  )

  test('an enqueue that fails and was not awaited fails the attempt', async ({ sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle((_, { enqueue }) => {
        enqueue('no such name!', 1).catch(() => undefined)
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    expect((await log.first('message.failed')).error).toContain('received "no such name!"')
  })

  test.for([
    ['that fails at once', 'no such name!'],
    ['that fails at once, of several', ['next', 'no such name!']],
  ] as const)(
    'an enqueue %s and is never awaited fails an async handler',
    async ([, to], { sluice, queue, log, database }) => {
      sluice
        .pipeline(queue, LATER)
        .handle(async (_, { tx, enqueue }) => {
          for (const name of [to].flat()) void enqueue(name, 1)
          await tx.query('SELECT 1')
        })
        .start()
      await put(sluice, queue, ['a'])
      expect((await log.first('message.failed')).error).toContain('received "no such name!"')
      expect(await payloadsOf(database, 'next')).toEqual([])
    },
  )

  test("an enqueue that fails is the handler's own affair once it has dealt with it", async ({
    sluice,
    queue,
    log,
  }) => {
    sluice
      .pipeline(queue)
      .handle(async (_, { tx, enqueue }) => {
        const [caught] = await Promise.allSettled([enqueue('no such name!', 1)])
        const later = enqueue('no such name!', 2)
        await tx.query('SELECT 1')
        await expect(later).rejects.toThrow('no such name!')
        expect(caught.status).toBe('rejected')
      })
      .start()
    await put(sluice, queue, ['a'])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 1 })
  })

  test("takes savepoints of the handler's own, rolled back and released", async ({
    database,
    sluice,
    queue,
    notes,
  }) => {
    sluice
      .pipeline(queue)
      .handle(async (_, { tx }) => {
        await tx.query(INSERT, [queue, 'kept'])
        await tx.query('SAVEPOINT one')
        await tx.query(INSERT, [queue, 'rolled back'])
        await tx.query('SELECT 1 / 0').catch(() => undefined)
        await tx.query('ROLLBACK TO SAVEPOINT one')
        await tx.query('RELEASE SAVEPOINT one')
        await tx.query('SAVEPOINT two')
        await tx.query(INSERT, [queue, 'left open'])
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    await untilEmpty(database, queue)
    expect(await notes(queue)).toEqual(['kept', 'left open'])
  })

  test('costs no savepoint until it is used, and one however often it is used', async ({ database, sluice, queue }) => {
    const statements = recordStatements()
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        if (payload === 'unused') return
        if (payload === 'fails unused') raise()
        await tx.query('SELECT 1')
        await tx.kysely<Tables>().selectFrom('note').selectAll().execute()
        if (payload === 'fails used') raise()
      })
      .subscribe()
    await put(sluice, queue, ['unused', 'used', 'unused', 'fails unused', 'fails used', 'used'])
    await expect.poll(() => payloadsOf(database, queue)).toEqual(['fails unused', 'fails used'])
    const savepoints = statements.flatMap(({ text }) =>
      [...text.replaceAll('; ', '\n').matchAll(/^([A-Z ]+) sluice_[0-9a-f]{12}_[01]$/gm)].map(([, command]) => command),
    )
    expect(savepoints).toEqual([
      'SAVEPOINT',
      'RELEASE SAVEPOINT',
      'SAVEPOINT',
      'ROLLBACK TO SAVEPOINT',
      'RELEASE SAVEPOINT',
      'SAVEPOINT',
      'RELEASE SAVEPOINT',
    ])
  })

  test('violates a deferred constraint at the expense of its own message only', async ({
    database,
    sluice,
    queue,
    log,
  }) => {
    await database.sql(`
      CREATE TABLE parent (id integer PRIMARY KEY);
      CREATE TABLE child (parent integer REFERENCES parent DEFERRABLE INITIALLY DEFERRED)`)
    sluice
      .pipeline(queue, LATER)
      .handle(async ({ payload }, { tx }) => {
        await tx.query('INSERT INTO child VALUES ($1)', [payload])
        if (payload !== 2) await tx.query('INSERT INTO parent VALUES ($1)', [payload])
      })
      .subscribe()
    await put(sluice, queue, [1, 2, 3])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
    expect(log.of('message.failed')).toMatchObject([{ error: expect.stringContaining('violates foreign key') }])
    expect(await database.sql('SELECT parent FROM child ORDER BY 1')).toEqual([{ parent: 1 }, { parent: 3 }])
  })

  test('gives a role back that the handler has taken on', async ({ sluice, queue, log }) => {
    const roles: unknown[] = []
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx }) => {
        roles.push((await tx.query('SELECT current_user AS role')).rows[0]?.role)
        await tx.query('SET LOCAL ROLE pg_monitor')
      })
      .subscribe()
    await put(sluice, queue, [1, 2])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 2 })
    expect(roles).not.toContain('pg_monitor')
  })

  test('is closed when the handler has ended', async ({ database, sluice, queue, notes }) => {
    const kept: HandlerTransaction[] = []
    sluice
      .pipeline(queue, LATER)
      .handle((_, context) => void kept.push(context.tx))
      .subscribe()
    await put(sluice, queue, ['a'])
    await untilEmpty(database, queue)
    const tx = kept[0]!
    const refused = { code: 'TRANSACTION_CLOSED', message: expect.stringContaining('Await every statement') }
    await expect(tx.query(INSERT, [queue, 'late'])).rejects.toMatchObject(refused)
    await expect(tx.client.query(INSERT, [queue, 'late'])).rejects.toMatchObject(refused)
    await expect(
      tx.kysely<Tables>().insertInto('note').values({ queue, text: 'late' }).execute(),
    ).rejects.toMatchObject(refused)
    await expect(sluice.enqueue(tx, queue, 'late')).rejects.toMatchObject(refused)
    expect(await new Promise((resolve) => tx.client.query('SELECT 1', [], resolve))).toMatchObject(refused)
    expect(await notes(queue)).toEqual([])
  })

  test('waits for statements that the handler has not awaited', async ({ database, sluice, queue, notes }) => {
    sluice
      .pipeline(queue)
      .handle((_, { tx }) => {
        void tx.query('SELECT pg_sleep(0.05)')
        void tx.query(INSERT, [queue, 'not awaited'])
        tx.client.query(INSERT, [queue, 'called back'], () => undefined)
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    await untilEmpty(database, queue)
    expect(await notes(queue)).toEqual(['not awaited', 'called back'])
  })

  test.for(IGNORED_FAILURES)(
    'fails the message alone for a failed statement that was %s',
    async ([, ignore], { sluice, queue, log, notes }) => {
      sluice
        .pipeline(queue, LATER)
        .handle(async ({ payload }, { tx }) => {
          await tx.query(INSERT, [queue, String(payload)])
          if (payload === 'bad') await ignore(tx)
        })
        .subscribe()
      await put(sluice, queue, ['good', 'bad', 'also good'])
      expect(await log.first('batch.committed')).toMatchObject({ acked: 2, retried: 1 })
      expect(log.of('message.failed')).toMatchObject([
        { error: expect.stringMatching(/^SluiceError: A statement failed.* — caused by error: division by zero$/) },
      ])
      expect(await notes(queue)).toEqual(['good', 'also good'])
    },
  )

  test('counts an answer once that the driver gives twice', async ({ sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx }) => {
        const unsendable: { self?: unknown } = {}
        unsendable.self = unsendable
        const error = await new Promise((resolve) => {
          tx.client.query('SELECT $1', [unsendable], resolve)
        })
        expect(String(error)).toContain('circular')
        await tx.query('SELECT 1')
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    expect(await log.first('batch.committed')).toMatchObject({ acked: 1 })
  })

  test('survives what is no statement', async ({ sluice, queue, log }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx }) => {
        await tx.client.query(undefined as never)
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    expect(await log.first('message.failed')).toMatchObject({
      error: expect.stringContaining('null or undefined query'),
    })
  })

  test('keeps nothing of a message whose effects are followed by a failure, and enqueues nothing', async ({
    database,
    sluice,
    queue,
    log,
    notes,
  }) => {
    sluice
      .pipeline(queue, LATER)
      .handle(async (_, { tx, enqueue }) => {
        await tx.query(INSERT, [queue, 'gone'])
        await enqueue(`${queue}.other`, 'gone')
        raise()
      })
      .subscribe()
    await put(sluice, queue, ['a'])
    await log.first('message.failed')
    expect(await notes(queue)).toEqual([])
    expect(await payloadsOf(database, `${queue}.other`)).toEqual([])
  })
})
