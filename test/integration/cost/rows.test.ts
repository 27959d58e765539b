import pg from 'pg'
import { describe, expect } from 'vitest'
import { deadLetter, retryLater } from '../../../src/message.ts'
import type { Pipeline, RunnablePipeline } from '../../../src/pipeline/pipeline.ts'
import { times } from '../../support/plans/counted.ts'
import { NO_POLL } from '../../support/rows/flag.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { untilSessions } from '../../support/servers/sessions.ts'
import { put, startTestSluice } from '../../support/sluice.ts'
import { test } from '../../support/test.ts'
import { waitFor } from '../../support/wait.ts'

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
 * for VACUUM. That a message has two index entries can be seen from the records of an enqueue in wal.test.ts.
 */
const CASES: readonly Case[] = [
  {
    what: 'that succeeds is inserted once and deleted once, and nothing else is written for it',
    with: (pipeline) => pipeline.handle(() => undefined),
    writes: { message: { inserted: MESSAGES, deleted: MESSAGES }, batch_record: { inserted: 4, deleted: 4 } },
  },
  {
    what: 'with a key that succeeds too',
    orderingKey: 'key',
    with: (pipeline) => pipeline.handle(() => undefined),
    writes: {
      message: { inserted: MESSAGES, deleted: MESSAGES },
      batch_record: { inserted: 4, deleted: 4 },
      slot: { inserted: 1 },
    },
  },
  {
    what: 'that fails once is updated once',
    with: (pipeline) => pipeline.handle(({ attempt }) => (attempt === 1 ? retryLater({ after: 0 }) : undefined)),
    writes: { message: { inserted: MESSAGES, updated: MESSAGES, deleted: MESSAGES } },
    // It depends on the clock which of them are due together.
    besides: ['batch_record'],
  },
  {
    what: 'that dies is moved once',
    with: (pipeline) => pipeline.handle(() => deadLetter('on purpose')),
    writes: {
      message: { inserted: MESSAGES, deleted: MESSAGES },
      dead_letter: { inserted: MESSAGES },
      batch_record: { inserted: 4, deleted: 4 },
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
      // A heartbeat goes with a poll.
      const sluice = startTestSluice(database, { pollInterval: NO_POLL })
      await put(sluice, queue, times(MESSAGES, [{}]), { orderingKey })
      const pipeline = work(sluice.pipeline(queue, { batchSize: 50 }))
      for (let ended = 0; ended < MESSAGES; ) {
        const settled = await pipeline.runOnce()
        ended += settled.filter(({ outcome }) => outcome.kind !== 'retryLater').length
      }
      await sluice.stop()
      // A server process tells what it has written before it ends: see `written`.
      for (const application of ['sluice', 'sluice control', 'sluice listener']) {
        await untilSessions(database, application, 0)
      }
      // What a worker has done is one row a minute, however much that was.
      const ofWorker = { worker: { inserted: 1, deleted: 1 }, worker_activity: { inserted: 1 } }
      const expected = { ...ofWorker, ...writes }
      const received = difference(before, await written(database))
      for (const table of besides) delete received[table]
      expect(received).toEqual(expected)
    })
  }
})

type Counts = ReadonlyMap<string, number>

/**
 * The row versions that were written, and ended, since the database was created: 'message inserted' and so on. Before
 * version 15 a server process sends what it has written to another one, which publishes it later, in the order in which
 * it came: when a session that began after all others had ended is in it, they are too.
 */
async function written(database: TestDatabase): Promise<Counts> {
  const { sql } = database
  await writeMarker(database)
  const marked = () => sql(`SELECT FROM pg_stat_user_tables WHERE relname = 'marker_${markers}' AND n_tup_ins = 1`)
  await waitFor(async () => (await marked()).length === 1, { what: 'the statistics' })
  const rows = await sql<{ what: string; count: number }>(
    `SELECT t.relname || ' ' || c.name AS what, c.count::float8 AS count
     FROM pg_stat_user_tables t CROSS JOIN LATERAL (
       VALUES ('inserted', n_tup_ins), ('updated', n_tup_upd), ('hot', n_tup_hot_upd), ('deleted', n_tup_del)
     ) c (name, count)
     WHERE t.schemaname = 'sluice'`,
  )
  return new Map(rows.map(({ what, count }) => [what, count]))
}

async function writeMarker({ url }: TestDatabase): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  markers += 1
  await client.query(`CREATE TABLE marker_${markers} (); INSERT INTO marker_${markers} DEFAULT VALUES`)
  await client.end()
}

let markers = 0

function difference(before: Counts, after: Counts): Record<string, Record<string, number>> {
  const writes: Record<string, Record<string, number>> = {}
  for (const [what, count] of after) {
    const [table = '', kind = ''] = what.split(' ')
    const more = count - (before.get(what) ?? 0)
    if (more !== 0) writes[table] = { ...writes[table], [kind]: more }
  }
  return writes
}
