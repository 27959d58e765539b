import { describe, expect, inject } from 'vitest'
import { retryLater } from '../../../src/message.ts'
import type { Pipeline, RunnablePipeline } from '../../../src/pipeline/pipeline.ts'
import { type Flush, test, times } from '../../support/plans/counted.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { put } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

/**
 * What the connections send, flush by flush; each flush costs one round trip. A statement of ours has its name; a query
 * has the first word of each of its commands. The lists are exact, so that what is added, or waits where it need not,
 * fails. The BEGIN has the settings for the time after which the server ends the transaction, three for the planner, and one
 * more, `jit`, where the database has it on; COMMIT begins the next transaction with the same.
 */
/** Statements that find rows by their ids, and before version 17 by their ctids. */
const SETTLING = new Set(['ack', 'postpone', 'dead_letter'])
const LIMIT = inject('serverVersion') < 170_000 ? 'SET' : 'SET; SET; SET'
const BEGIN = `BEGIN; ${LIMIT}; SET; SET; SET`
const COMMIT = `COMMIT; ${LIMIT}; SET; SET; SET`
/** The look over the queue that goes with the first BEGIN says which priorities and slots there are. */
const FIRST = [[BEGIN], ['claim']]
/** The settlement comes between the handlers and this: all of it, and the next claim, are one flush. */
const NEXT = [COMMIT, 'claim']
/** The first savepoint of a batch gives the planner back its freedom. */
const FIRST_SAVEPOINT = 'SET; SET; SET; SAVEPOINT'
/**
 * Resets user, role and settings; sets the limits of the transaction again, closes cursors,
 * drops temporary tables, and ends the savepoint.
 */
const KEEP = `RESET; RESET; RESET; ${LIMIT}; CLOSE; DISCARD; RELEASE`
/** The same after a check of what is deferred, which is taken back: somebody waits for the answer. */
const KEEP_CHECKED = `SAVEPOINT; SET; ROLLBACK TO; ${KEEP}`
/** After the handlers that had the connection, and before the settlement. */
const CONFINE = 'UNLISTEN; SELECT; SET; SET; SET'
const UNDO = ['ROLLBACK TO', 'RELEASE']

interface Case {
  readonly what: string
  readonly messages: number
  readonly options: { readonly batchSize: number; readonly maxAttempts?: number; readonly ordered?: boolean }
  readonly orderingKey?: string
  readonly with: (pipeline: Pipeline<unknown, undefined>) => RunnablePipeline
  readonly claim?: string
  readonly first?: readonly Flush[]
  /** What goes before the records of the batches. */
  readonly control?: readonly Flush[]
  /** What the batch's connection sends between the first claim and the last look, which finds nothing. */
  readonly batches: readonly Flush[]
}

const CASES: readonly Case[] = [
  {
    what: '300 messages in batches of 100 take one round trip per batch',
    messages: 300,
    options: { batchSize: 100 },
    with: (pipeline) => pipeline.handle(() => undefined),
    batches: times(3, [['ack', ...NEXT]]),
  },
  {
    what: '3 messages in batches of one take one round trip each',
    messages: 3,
    options: { batchSize: 1 },
    with: (pipeline) => pipeline.handle(() => undefined),
    batches: times(3, [['ack', ...NEXT]]),
  },
  {
    what: 'a statement through tx takes one: its savepoint goes with it, and is kept with the next or the settlement',
    messages: 3,
    options: { batchSize: 3 },
    with: (pipeline) => pipeline.handle(async (_, { tx }) => void (await tx.query('INSERT INTO effect VALUES (1)'))),
    batches: [
      [FIRST_SAVEPOINT, 'INSERT'],
      ...times(2, [[`${KEEP}; SAVEPOINT`, 'INSERT']]),
      [`${KEEP}; ${CONFINE}`, 'ack', ...NEXT],
    ],
  },
  {
    what: 'after a query whose traces may fail to be undone the end of the savepoint is waited for',
    messages: 2,
    options: { batchSize: 2 },
    with: (pipeline) => pipeline.handle(async (_, { tx }) => void (await tx.query('CREATE TEMP TABLE t (n bigint)'))),
    batches: [
      [FIRST_SAVEPOINT, 'CREATE'],
      [KEEP_CHECKED],
      ['SAVEPOINT', 'CREATE'],
      [KEEP_CHECKED],
      [CONFINE, 'ack', ...NEXT],
    ],
  },
  {
    what: 'a handler that enqueues takes one round trip',
    messages: 2,
    options: { batchSize: 2 },
    with: (pipeline) => pipeline.handle(async (_, { enqueue }) => void (await enqueue('other', {}))),
    batches: [
      [FIRST_SAVEPOINT, 'insert_plain'],
      [`${KEEP}; SAVEPOINT`, 'insert_plain'],
      [`${KEEP}; ${CONFINE}`, 'ack', ...NEXT],
    ],
  },
  {
    what: 'a handler of whole batches takes one round trip for all its messages',
    messages: 100,
    options: { batchSize: 100 },
    with: (pipeline) =>
      pipeline.handleBatch(async (_, { tx }) => void (await tx.query('INSERT INTO effect VALUES (1)'))),
    batches: [
      [FIRST_SAVEPOINT, 'INSERT'],
      [`${KEEP}; ${CONFINE}`, 'ack', ...NEXT],
    ],
  },
  {
    what: 'failures cost one statement per batch, and no round trip',
    messages: 100,
    options: { batchSize: 100 },
    with: (pipeline) => pipeline.handle(({ payload }) => (Number(payload) % 2 === 0 ? raise() : undefined)),
    batches: [['ack', 'postpone', ...NEXT]],
  },
  {
    what: 'a failure after a statement through tx is undone in one more',
    messages: 2,
    options: { batchSize: 2 },
    with: (pipeline) =>
      pipeline.handle(async (_, { tx }) => {
        await tx.query('INSERT INTO effect VALUES (1)')
        return retryLater({ after: '1h' })
      }),
    batches: [[FIRST_SAVEPOINT, 'INSERT'], UNDO, ['SAVEPOINT', 'INSERT'], UNDO, [CONFINE, 'postpone', ...NEXT]],
  },
  {
    what: 'dead letters cost one statement per batch, and no round trip',
    messages: 100,
    options: { batchSize: 100, maxAttempts: 1 },
    with: (pipeline) => pipeline.handle(() => raise()),
    batches: [['dead_letter', ...NEXT]],
  },
  {
    what: 'a queue of messages with keys takes one round trip per batch once it knows that there are no others',
    messages: 300,
    orderingKey: 'key',
    options: { batchSize: 100 },
    with: (pipeline) => pipeline.handle(() => undefined),
    control: [['ensure_slots']],
    // The look finds that there are only keys. The last claim asks for both kinds.
    first: [[BEGIN], ['claim_free_slots']],
    batches: [...times(3, [['ack', COMMIT, 'claim_free_slots']]), ['claim']],
  },
  {
    what: 'a queue that is ordered as a whole takes one per batch',
    messages: 300,
    options: { batchSize: 100, ordered: true },
    with: (pipeline) => pipeline.handle(() => undefined),
    claim: 'claim_whole_queue',
    control: [['ensure_slots']],
    // The look finds no slot, and makes it.
    batches: times(3, [['ack', ...NEXT]]),
  },
]

describe('no wait for the server too many:', () => {
  for (const {
    what,
    messages,
    orderingKey,
    options,
    with: work,
    batches,
    claim = 'claim',
    control = [],
    first = FIRST,
  } of CASES) {
    test(what, async ({ counted, database, queue }) => {
      const { sluice } = counted
      await database.sql('CREATE TABLE IF NOT EXISTS effect (n bigint)')
      const payloads = Array.from({ length: messages }, (_, at) => at)
      await put(sluice, queue, payloads, { orderingKey })
      await counted.clear()
      await work(sluice.pipeline(queue, options)).runOnce()

      const named = await namesOn(database, claim)
      const expected = [...first, ...batches, ['ROLLBACK']].map((flush) => flush.map(named))
      expect(await counted.flushes('sluice')).toEqual(expected)
      // Once a pipeline has begun, a look over the queue costs no round trip of its own.
      for (const flush of (await counted.flushesWith('sluice', 'queue_scan')).slice(1))
        expect(flush).toContainEqual(expect.stringMatching(/^claim/))
      // Before its first handler each batch is written down, on another connection.
      const records = times(messages / options.batchSize, [['batch_record']])
      expect(await counted.flushes('sluice control')).toEqual([...control, ...records])
    })
  }
})

/**
 * Before version 17 an ack first looks up the ctids of its rows. What `jit` needs goes with the settings for the planner.
 */
async function namesOn({ sql }: TestDatabase, claim: string): Promise<(sent: string) => string> {
  const isOlder = inject('serverVersion') < 170_000
  const [{ jit } = { jit: 'off' }] = await sql<{ jit: string }>('SHOW jit')
  const more = jit === 'on' ? 1 : 0
  return (sent) => {
    if (sent === 'claim') return claim
    if (isOlder && SETTLING.has(sent)) return `${sent}_by_ctid`
    if (sent === FIRST_SAVEPOINT) return `${'SET; '.repeat(more)}${sent}`
    if (sent === BEGIN || sent === COMMIT) return sent + '; SET'.repeat(more)
    return sent.endsWith(CONFINE) ? sent + '; SET'.repeat(more) : sent
  }
}
