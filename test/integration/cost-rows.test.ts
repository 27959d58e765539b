import { describe, expect } from 'vitest'
import { deadLetter, retry } from '../../src/message.ts'
import type { Pipeline, RunnablePipeline } from '../../src/pipeline/pipeline.ts'
import { times } from '../support/counted.ts'
import type { TestDatabase } from '../support/database.ts'
import { untilSessions } from '../support/sessions.ts'
import { put, startTestSluice } from '../support/sluice.ts'
import { test } from '../support/test.ts'

interface Writes {
  readonly inserted?: number
  readonly updated?: number
  /** Of the updates, those within their page, which leave the indexes as they are. */
  readonly hot?: number
  readonly deleted?: number
}

const MESSAGES = 200

/**
 * What a queue of 200 messages, in batches of 50, writes into each table. Each update and each deletion is a dead row
 * for VACUUM. That a message has two index entries can be seen from the records of an enqueue in cost-wal.test.ts.
 */
const CASES: readonly Case[] = [
  {
    what: 'that succeeds is inserted once and deleted once, and nothing else is written for it',
    with: (pipeline) => pipeline.handle(() => undefined),
    writes: { message: { inserted: MESSAGES, deleted: MESSAGES }, batch: { inserted: 4, deleted: 4 } },
  },
  {
    what: 'with a key that succeeds too',
    orderingKey: 'key',
    with: (pipeline) => pipeline.handle(() => undefined),
    writes: {
      message: { inserted: MESSAGES, deleted: MESSAGES },
      batch: { inserted: 4, deleted: 4 },
      slot: { inserted: 1 },
    },
  },
  {
    what: 'that fails once is updated once',
    with: (pipeline) => pipeline.handle(({ attempt }) => (attempt === 1 ? retry({ after: 0 }) : undefined)),
    writes: { message: { inserted: MESSAGES, updated: MESSAGES, deleted: MESSAGES } },
    // It depends on the clock which of them are due together.
    besides: ['batch'],
  },
  {
    what: 'that dies is moved once',
    with: (pipeline) => pipeline.handle(() => deadLetter('on purpose')),
    writes: {
      message: { inserted: MESSAGES, deleted: MESSAGES },
      dead_letter: { inserted: MESSAGES },
      batch: { inserted: 4, deleted: 4 },
    },
  },
]

interface Case {
  readonly what: string
  readonly orderingKey?: string
  readonly with: (pipeline: Pipeline<unknown, undefined>) => RunnablePipeline
  readonly writes: Readonly<Record<string, Writes>>
  /** Tables that do not matter. */
  readonly besides?: readonly string[]
}

describe('P6: no dead row too many: a message', () => {
  for (const { what, orderingKey, with: work, writes, besides = [] } of CASES) {
    test(what, async ({ database, task }) => {
      const queue = `rows.${task.id.replaceAll(/\W/g, '')}`
      const before = await written(database)
      const sluice = startTestSluice(database)
      await put(sluice, queue, times(MESSAGES, [{}]), { orderingKey })
      const pipeline = work(sluice.pipeline(queue, { batchSize: 50 }))
      for (let ended = 0; ended < MESSAGES; ) {
        const settled = await pipeline.runOnce()
        ended += settled.filter(({ outcome }) => outcome.kind !== 'retry').length
      }
      await sluice.stop()
      // A server process tells what it has written before it ends.
      for (const application of ['sluice', 'sluice control', 'sluice listener']) {
        await untilSessions(database, application, 0)
      }
      const expected = { worker: { inserted: 1, deleted: 1 }, ...writes }
      const received = difference(before, await written(database))
      for (const table of besides) delete received[table]
      expect(received).toEqual(expected)
    })
  }
})

type Counts = ReadonlyMap<string, number>

/** The row versions that were written, and ended, since the database was created: 'message inserted' and so on. */
async function written({ sql }: TestDatabase): Promise<Counts> {
  const rows = await sql<{ what: string; count: number }>(
    `SELECT t.relname || ' ' || c.name AS what, c.count::float8 AS count
     FROM pg_stat_user_tables t CROSS JOIN LATERAL (
       VALUES ('inserted', n_tup_ins), ('updated', n_tup_upd), ('hot', n_tup_hot_upd), ('deleted', n_tup_del)
     ) c (name, count)
     WHERE t.schemaname = 'sluice'`,
  )
  return new Map(rows.map(({ what, count }) => [what, count]))
}

function difference(before: Counts, after: Counts): Record<string, Record<string, number>> {
  const writes: Record<string, Record<string, number>> = {}
  for (const [what, count] of after) {
    const [table = '', kind = ''] = what.split(' ')
    const more = count - (before.get(what) ?? 0)
    if (more !== 0) writes[table] = { ...writes[table], [kind]: more }
  }
  return writes
}
