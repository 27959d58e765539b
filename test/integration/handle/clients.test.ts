import { EventEmitter } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { PrismaPg } from '@prisma/adapter-pg'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import knex from 'knex'
import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { DataSource } from 'typeorm'
import { describe, expect, onTestFinished } from 'vitest'
import type { HandlerTransaction, OpenTransaction } from '../../../src/index.ts'
import { forHandlers, prismaIn } from '../../../src/prisma.ts'
import { PrismaClient, type PrismaTransaction } from '../../support/prisma-client.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { test as base, put } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

/** What the work of a client does: writes a note, enqueues with the client's own transaction. */
interface Notes {
  readonly tx: OpenTransaction
  write(text: string): Promise<unknown>
}

/** How a client runs work in a transaction of its own on that of a handler. */
interface ClientInHandler {
  readonly name: string
  /** @param url of the client's own connections, which it does not use for this */
  readonly open: (url: string) => Promise<Opened> | Opened
}

interface Opened {
  within(tx: HandlerTransaction, work: (notes: Notes) => Promise<void>): Promise<void>
  close(): Promise<unknown>
}

const INSERT = 'INSERT INTO "Note" (id, text) VALUES ($1, $2)'
const nothing = async () => undefined
let ids = 0

const CLIENTS: readonly ClientInHandler[] = [
  {
    name: 'Drizzle',
    open: () => ({
      within: (tx, work) =>
        drizzle(tx.pool).transaction((own) => {
          const write = (text: string) => own.execute(sql`INSERT INTO "Note" (id, text) VALUES (${++ids}, ${text})`)
          return work({ tx: own, write })
        }),
      close: nothing,
    }),
  },
  {
    name: 'Kysely',
    open: () => ({
      within: (tx, work) =>
        new Kysely<{ Note: { id: number; text: string } }>({ dialect: new PostgresDialect({ pool: tx.pool }) })
          .transaction()
          .execute((own) => {
            const write = (text: string) => own.insertInto('Note').values({ id: ++ids, text }).execute()
            return work({ tx: own, write })
          }),
      close: nothing,
    }),
  },
  {
    name: 'Knex',
    open(url) {
      const db = knex({ client: 'pg', connection: url })
      return {
        within: async (tx, work) =>
          db.transaction((own) => work({ tx: own, write: (text) => own('Note').insert({ id: ++ids, text }) }), {
            connection: await tx.pool.connect(),
          }),
        close: () => db.destroy(),
      }
    },
  },
  {
    name: 'TypeORM',
    async open(url) {
      const source = await new DataSource({ type: 'postgres', url }).initialize()
      return {
        async within(tx, work) {
          const connection = await tx.pool.connect()
          const runner = source.createQueryRunner()
          runner.connect = async () => connection
          await runner.manager.transaction((own) =>
            work({ tx: own, write: (text) => own.query(INSERT, [++ids, text]) }),
          )
        },
        close: () => source.destroy(),
      }
    },
  },
  {
    name: 'Prisma',
    open(url) {
      const prisma = new PrismaClient({ adapter: forHandlers(new PrismaPg({ connectionString: url })) })
      return {
        within: (tx, work) => prismaIn(tx, prisma, (own) => work({ tx: own, write: writeWith(own) })),
        close: () => prisma.$disconnect(),
      }
    },
  },
  {
    name: 'Prisma, an extended client',
    open(url) {
      const prisma = new PrismaClient({ adapter: forHandlers(new PrismaPg({ connectionString: url })) })
      const extended = prisma.$extends({ name: 'nothing', query: {} })
      return {
        within: (tx, work) => prismaIn(tx, extended, (own) => work({ tx: own, write: writeWith(own) })),
        close: () => prisma.$disconnect(),
      }
    },
  },
  {
    name: 'Prisma, a client for one handler',
    open: () => ({
      async within(tx, work) {
        const prisma = new PrismaClient({ adapter: new PrismaPg(tx.pool) })
        await prisma.$transaction((own) => work({ tx: own, write: writeWith(own) }))
      },
      close: nothing,
    }),
  },
]

/** Drizzle shows its own words, and has the error as their cause. */
function causesOf(error: unknown): string {
  return error instanceof Error ? `${error.message} ${causesOf(error.cause)}` : ''
}

function writeWith(own: PrismaTransaction) {
  return (text: string) => own.note.create({ data: { id: ++ids, text } })
}

const test = base.extend('notes', { scope: 'file' }, async ({ database }) => {
  await database.sql('CREATE TABLE "Note" (id integer PRIMARY KEY, text text NOT NULL)')
  return async (prefix: string) => {
    const rows = await database.sql<{ text: string }>(
      `SELECT text FROM "Note" WHERE starts_with(text, $1) ORDER BY id`,
      [prefix],
    )
    return rows.map(({ text }) => text.slice(prefix.length))
  }
})

/** A handler that fails once, and is not tried again. */
const ONCE = { maxAttempts: 1 } as const

describe.for(CLIENTS)('$name in a handler', ({ open }) => {
  const ready = async (url: string) => {
    const client = await open(url)
    onTestFinished(() => client.close().then(() => undefined))
    return client
  }

  test('writes in the transaction that removes the message, and what a failed handler has written is gone', async ({
    database,
    sluice,
    queue,
    notes,
  }) => {
    const client = await ready(database.url)
    const pipeline = sluice.pipeline(queue, ONCE).handle(async ({ payload }, { tx }) => {
      await client.within(tx, ({ write }) => write(`${queue}${payload}`).then(() => undefined))
      // Another session does not see it before the batch commits.
      expect(await notes(queue)).toEqual([])
      if (payload === 'bad') raise()
    })
    await put(sluice, queue, ['good', 'bad', 'also good'])
    const settled = await pipeline.runOnce()
    expect(settled.map(({ outcome }) => outcome.kind)).toEqual(['ack', 'deadLetter', 'ack'])
    expect(await notes(queue)).toEqual(['good', 'also good'])
  })

  test('undoes a transaction of its own that fails, and no more', async ({ database, sluice, queue, notes }) => {
    const client = await ready(database.url)
    const pipeline = sluice.pipeline(queue, ONCE).handle(async (_, { tx }) => {
      await client.within(tx, ({ write }) => write(`${queue}before`).then(() => undefined))
      const failed = client.within(tx, async ({ write }) => {
        await write(`${queue}undone`)
        throw new Error('changed my mind')
      })
      await expect(failed).rejects.toThrow('changed my mind')
      const refused = client.within(tx, async ({ write }) => {
        await write(`${queue}undone too`)
        ids -= 1
        await write(`${queue}a second one with its id`)
      })
      await expect(refused).rejects.toThrow()
      await client.within(tx, ({ write }) => write(`${queue}after`).then(() => undefined))
    })
    await put(sluice, queue, ['a'])
    expect((await pipeline.runOnce()).map(({ outcome }) => outcome.kind)).toEqual(['ack'])
    expect(await notes(queue)).toEqual(['before', 'after'])
  })

  test('enqueues with its transaction', async ({ database, sluice, queue }) => {
    const client = await ready(database.url)
    const other = `${queue}.other`
    const pipeline = sluice.pipeline(queue, ONCE).handle(async ({ payload }, { tx }) => {
      await client.within(tx, async (own) => void (await sluice.enqueue(own.tx, other, payload)))
      const undone = client.within(tx, async (own) => {
        await sluice.enqueue(own.tx, other, 'undone')
        throw new Error('changed my mind')
      })
      await expect(undone).rejects.toThrow('changed my mind')
      if (payload === 'bad') raise()
    })
    await put(sluice, queue, ['good', 'bad'])
    await pipeline.runOnce()
    expect(await payloadsOf(database, other)).toEqual(['good'])
  })

  test('is refused once its handler has ended', async ({ database, sluice, queue, notes }) => {
    const client = await ready(database.url)
    const taken: HandlerTransaction[] = []
    const pipeline = sluice.pipeline(queue).handle(async (_, { tx }) => {
      await tx.pool.query('SELECT 1')
      taken.push(tx)
    })
    await put(sluice, queue, ['a'])
    await pipeline.runOnce()
    const late = taken.map((tx) => client.within(tx, ({ write }) => write(`${queue}late`).then(() => undefined)))
    expect(late).toHaveLength(1)
    for (const one of late) {
      const error: unknown = await one.catch((thrown: unknown) => thrown)
      expect(causesOf(error)).toContain("The handler's transaction ended with the handler")
    }
    expect(await notes(queue)).toEqual([])
  })

  test('works in the transaction() of a leased handler', async ({ database, sluice, queue, notes }) => {
    const client = await ready(database.url)
    const pipeline = sluice.pipeline(queue, { mode: 'leased' }).handle(async (_, { transaction }) => {
      await transaction((tx) => client.within(tx, ({ write }) => write(`${queue}leased`).then(() => undefined)))
    })
    await put(sluice, queue, ['a'])
    expect((await pipeline.runOnce()).counts.acked).toBe(1)
    expect(await notes(queue)).toEqual(['leased'])
  })
})

describe('tx.pool', () => {
  const inHandler = base.extend('inHandler', ({ sluice, queue }) => async (work: (pool: pg.Pool) => unknown) => {
    const pipeline = sluice.pipeline(queue, ONCE).handle(async (_, { tx }) => void (await work(tx.pool)))
    await put(sluice, queue, ['a'])
    const [settled] = await pipeline.runOnce()
    return { kind: undefined, error: undefined, ...settled?.outcome }
  })

  inHandler('takes callbacks as a pool does', async ({ inHandler: run }) => {
    const seen: unknown[] = []
    const done = await run(async (pool) => {
      const client = await new Promise<pg.PoolClient>((resolve, reject) => {
        pool.connect((error, given, release) => {
          release()
          if (error === undefined && given !== undefined) resolve(given)
          else reject(error)
        })
      })
      for (const text of ['BEGIN', 'SELECT 7 AS n', 'COMMIT']) {
        await new Promise((resolve) =>
          client.query(text, (_: unknown, { rows }: pg.QueryResult) => resolve(seen.push(rows))),
        )
      }
    })
    expect(done.kind).toBe('ack')
    expect(seen).toEqual([[], [{ n: 7 }], []])
  })

  inHandler(
    'rolls a transaction back whose COMMIT fails because an error was swallowed',
    async ({ inHandler: run }) => {
      const seen: unknown[] = []
      const done = await run(async (pool) => {
        const client = await pool.connect()
        const called = (text: string) => new Promise<unknown>((resolve) => client.query(text, resolve))
        const awaited = (text: string) => client.query(text).catch((error: unknown) => error)
        for (const send of [awaited, called]) {
          await send('BEGIN')
          await send('SELECT 1 / 0')
          seen.push(await send('COMMIT'))
          await send('ROLLBACK')
        }
        await pool.query('SELECT 1')
      })
      expect(seen).toMatchObject([{ code: '25P02' }, { code: '25P02' }])
      expect(done).toMatchObject({ kind: 'ack' })
    },
  )

  inHandler('ends transactions whose ends are sent before one is answered', async ({ inHandler: run }) => {
    const done = await run(async (pool) => {
      const [outer, inner] = [await pool.connect(), await pool.connect()]
      await outer.query('BEGIN')
      await inner.query('BEGIN')
      await Promise.all([inner, outer].map((client) => client.query('COMMIT')))
      await Promise.all(['BEGIN', 'COMMIT', 'BEGIN', 'COMMIT'].map((text) => inner.query(text)))
    })
    expect(done).toMatchObject({ kind: 'ack' })
  })

  inHandler('forgets a transaction whose BEGIN has failed', async ({ inHandler: run }) => {
    const done = await run(async (pool) => {
      const [first, second] = [await pool.connect(), await pool.connect()]
      await first.query('BEGIN')
      await first.query('SELECT 1 / 0').catch(() => undefined)
      await expect(second.query('BEGIN')).rejects.toMatchObject({ code: '25P02' })
      await first.query('ROLLBACK')
    })
    expect(done).toMatchObject({ kind: 'ack' })
  })

  inHandler("keeps listeners apart from those of the batch's connection", async ({ inHandler: run }) => {
    const done = await run(async (pool) => {
      const client = await pool.connect()
      const real: pg.PoolClient = Object.getPrototypeOf(client)
      const counts = () => ['error', 'end'].map((event) => real.listenerCount(event))
      const before = counts()
      expect(before[0]).toBeGreaterThan(0)
      const methods = Object.keys(EventEmitter.prototype).filter((name) =>
        /^(on|once|off|(add|prepend|remove).*Listeners?)$/.test(name),
      )
      expect(methods).toHaveLength(8)
      for (const method of methods) {
        for (const event of ['error', 'end']) {
          expect(Reflect.apply(Reflect.get(client, method), client, [event, () => undefined])).toBe(client)
        }
      }
      expect(client.removeAllListeners()).toBe(client)
      expect(counts()).toEqual(before)
    })
    expect(done).toMatchObject({ kind: 'ack', error: undefined })
  })

  inHandler('refuses the end of a transaction while a later one is open', async ({ inHandler: run }) => {
    const done = await run(async (pool) => {
      const [first, second] = [await pool.connect(), await pool.connect()]
      await first.query('BEGIN')
      await second.query('BEGIN')
      await first.query('COMMIT').catch(() => undefined)
      await second.query('COMMIT')
    })
    expect(done.kind).toBe('deadLetter')
    expect(done.error).toMatch(/tx\.pool: expected the transaction that began last to end first, received COMMIT of an/)
  })

  inHandler('refuses a statement beside a transaction, which would be undone with it', async ({ inHandler: run }) => {
    const outcomes = [
      await run(async (pool) => {
        const [first, second] = [await pool.connect(), await pool.connect()]
        await first.query('BEGIN')
        await second.query('BEGIN')
        await first.query('SELECT 1').catch(() => undefined)
        await second.query('ROLLBACK')
        await first.query('COMMIT')
      }),
      await run(async (pool) => {
        const client = await pool.connect()
        await client.query('BEGIN')
        await pool.query('SELECT 1').catch(() => undefined)
        await client.query('ROLLBACK')
      }),
    ]
    for (const { kind, error } of outcomes) {
      expect(kind).toBe('deadLetter')
      expect(error).toMatch(/tx\.pool: .*received a statement beside it\. It is one connection/)
    }
  })

  inHandler('keeps nothing of a transaction that has not ended with the handler', async ({ inHandler: run }) => {
    const done = await run(async (pool) => {
      const client = await pool.connect()
      await client.query('BEGIN')
      await client.query('SELECT 1')
      client.release()
    })
    expect(done.kind).toBe('deadLetter')
    expect(done.error).toMatch(/tx\.pool: expected each transaction to have ended with the handler/)
  })

  inHandler.for(['COMMIT', 'ROLLBACK', 'BEGIN ISOLATION LEVEL SERIALIZABLE', 'BEGIN; COMMIT'])(
    'refuses %s where the client does',
    async (text, { inHandler: run }) => {
      const done = await run((pool) => pool.connect().then((client) => client.query(text)))
      expect(done.kind).toBe('deadLetter')
      expect(done.error).toMatch(/^SluiceError: The transaction: expected to stay open/)
    },
  )

  inHandler(
    'refuses transactions by query(), which a pool would spread over its connections',
    async ({ inHandler: run }) => {
      const done = await run((pool) => pool.query('BEGIN'))
      expect(done.error).toMatch(/received BEGIN/)
    },
  )
})

describe('prismaIn', () => {
  const open = (url: string, adapter: (factory: PrismaPg) => PrismaPg) => {
    const prisma = new PrismaClient({ adapter: adapter(new PrismaPg({ connectionString: url })) })
    onTestFinished(() => prisma.$disconnect())
    return prisma
  }

  test('keeps handlers that run at the same time apart, in the order of their own statements', async ({
    database,
    sluice,
    queue,
    notes,
  }) => {
    const prisma = open(database.url, forHandlers)
    const payloads = Array.from({ length: 20 }, (_, at) => (at % 2 === 0 ? `kept ${at}` : `undone ${at}`))
    await put(sluice, queue, payloads)
    const running = sluice
      .pipeline(queue, { ...ONCE, concurrency: 5, batchSize: 2 })
      .handle(async (message, { tx }) => {
        await prismaIn(tx, prisma, (db) => writeWith(db)(`${queue}${message.payload}`))
        await prismaIn(tx, prisma, (db) => writeWith(db)(`${queue}${message.payload} again`))
        if (String(message.payload).startsWith('undone')) raise()
      })
    const settled = await running.runOnce()
    expect(settled.counts).toMatchObject({ acked: 10, dead: 10 })
    const kept = payloads.filter((payload) => payload.startsWith('kept'))
    expect([...(await notes(queue))].sort()).toEqual(kept.flatMap((payload) => [payload, `${payload} again`]).sort())
  })

  test('leaves what the client does elsewhere as it is', async ({ database, sluice, queue, notes }) => {
    const prisma = open(database.url, forHandlers)
    await prisma.$transaction((db) => writeWith(db)(`${queue}in a program`))
    const pipeline = sluice.pipeline(queue, ONCE).handle(async (_, { tx }) => {
      await prismaIn(tx, prisma, async (db) => {
        await writeWith(db)(`${queue}undone`)
        await prisma.$transaction((outside) => writeWith(outside)(`${queue}outside`))
      })
      raise()
    })
    await put(sluice, queue, ['a'])
    await pipeline.runOnce()
    expect(await notes(queue)).toEqual(['in a program', 'outside'])
  })

  test('refuses a client whose adapter was not prepared, before it writes', async ({
    database,
    sluice,
    queue,
    notes,
  }) => {
    const prisma = open(database.url, (factory) => factory)
    const pipeline = sluice
      .pipeline(queue, ONCE)
      .handle((_, { tx }) => prismaIn(tx, prisma, async (db) => void (await writeWith(db)(`${queue}outside`))))
    await put(sluice, queue, ['a'])
    const [settled] = await pipeline.runOnce()
    expect(settled?.outcome).toMatchObject({
      kind: 'deadLetter',
      error: expect.stringContaining('forHandlers(new PrismaPg(…))'),
    })
    expect(await notes(queue)).toEqual([])
  })

  test('refuses an adapter of another package, and what is no tx', async () => {
    const neon = { adapterName: '@prisma/adapter-neon', connect: async () => ({ startTransaction: async () => ({}) }) }
    expect(() => forHandlers(neon)).toThrow(
      /^forHandlers: expected a PrismaPg of @prisma\/adapter-pg, received "@prisma/,
    )
    const prisma = new PrismaClient({ adapter: forHandlers(new PrismaPg({})) })
    const swapped = prismaIn(prisma as never, prisma, async () => undefined)
    await expect(swapped).rejects.toThrow(/^prismaIn: expected a handler's tx, received/)
  })

  test('has no time limit but that of the handler', async ({ database, sluice, queue, notes }) => {
    const prisma = open(database.url, forHandlers)
    const limits: unknown[] = []
    const watched = {
      $transaction<Result>(work: (db: PrismaTransaction) => Promise<Result>, options?: object): Promise<Result> {
        limits.push(options)
        return prisma.$transaction(work, options)
      },
    }
    const pipeline = sluice.pipeline(queue, { ...ONCE, timeout: '100ms' }).handle((_, { tx, signal }) =>
      prismaIn(tx, watched, async (db) => {
        await writeWith(db)(`${queue}late`)
        await setTimeout(60_000, undefined, { signal }).catch(() => undefined)
        await writeWith(db)(`${queue}too late`)
      }),
    )
    await put(sluice, queue, ['a'])
    const [settled] = await pipeline.runOnce()
    expect(settled?.outcome).toMatchObject({
      kind: 'deadLetter',
      error: expect.stringContaining('expected to end within 100 ms'),
    })
    expect(limits).toEqual([{ maxWait: 86_400_000, timeout: 86_400_000 }])
    expect(await notes(queue)).toEqual([])
  })
})
