import pg from 'pg'
import { expect, onTestFinished } from 'vitest'
import { ack, deadLetter, snooze } from '../../../src/message.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { append } from '../../support/streams.ts'

/** With it, a NULL in an array that a client sends is the text 'NULL', and in one of numbers an error. */
const test = base.extend('off', { scope: 'file' }, async ({ database }) => {
  await database.sql(`ALTER DATABASE ${new URL(database.url).pathname.slice(1)} SET array_nulls = off`)
  return database
})

const OUTCOMES = {
  ack: () => ack(),
  keeps: () => ack({ dedupeFor: '2h' }),
  snooze: () => snooze({ after: '1h' }),
  dead: () => deadLetter('no'),
  fails: () => {
    throw new Error('failed')
  },
}
const NAMES = Object.keys(OUTCOMES)
const outcomeOf = ({ payload }: { payload: unknown }) => OUTCOMES[payload as keyof typeof OUTCOMES]()

const PATIENT = { batchSize: 10, retry: { kind: 'fixed', delay: '1h' } } as const

function resultsOf({ sql }: TestDatabase, queue: string) {
  return sql(
    `SELECT payload, last_error AS error, 'waits' AS state FROM sluice.message WHERE queue = $1
     UNION ALL SELECT payload, error, reason FROM sluice.dead_letter WHERE queue = $1 ORDER BY 1`,
    [queue],
  )
}

const EXPECTED = [
  { payload: 'dead', error: null, state: 'no' },
  { payload: 'fails', error: 'Error: failed', state: 'waits' },
  { payload: 'snooze', error: null, state: 'waits' },
]

test.for(['transactional', 'leased'] as const)(
  'outcomes are right where a database has array_nulls = off: %s',
  async (mode, { off, queue }) => {
    const sluice = startTestSluice(off)
    await put(sluice, queue, NAMES)
    for (const name of ['ack', 'keeps'])
      await sluice.enqueue(sluice.ownTransaction, queue, name, { dedupe: { key: name, for: '1h' } })
    const pipeline =
      mode === 'leased'
        ? sluice.pipeline(queue, { mode, ...PATIENT }).handle(outcomeOf)
        : sluice.pipeline(queue, PATIENT).handle(outcomeOf)
    await pipeline.runOnce()
    expect(await resultsOf(off, queue)).toEqual(EXPECTED)
    const kept = 'SELECT key FROM sluice.kept_key WHERE queue = $1 ORDER BY key'
    expect(await off.sql(kept, [queue])).toEqual([{ key: 'ack' }, { key: 'keeps' }])
  },
)

test('so are those of events', async ({ off }) => {
  const sluice = startTestSluice(off)
  await off.sql(`SELECT sluice.create_stream('s', 1::smallint), sluice.create_group('s', 'all', '{0}')`)
  await append(
    off,
    's',
    NAMES.map((name) => [name, name]),
  )
  await sluice
    .pipeline('s', { group: 'all', ...PATIENT })
    .handle(outcomeOf)
    .runOnce()
  expect(await resultsOf(off, 's:all')).toEqual(EXPECTED)
})

test('appends of one transaction to several partitions go on', async ({ off }) => {
  await off.sql(`SELECT sluice.create_stream('wide', 16::smallint)`)
  const client = new pg.Client({ connectionString: off.url })
  await client.connect()
  onTestFinished(() => client.end())
  const appends = `SELECT sluice.append('wide', '1', ordering_key => n::text) FROM generate_series(1, 20) n`
  expect((await client.query(appends)).rowCount).toBe(20)
})

test('and a handler has the setting of its database', async ({ off, queue }) => {
  const sluice = startTestSluice(off)
  await put(sluice, queue, ['one'])
  const seen: unknown[] = []
  await sluice
    .pipeline(queue)
    .handle(async (_, { tx }) => void seen.push((await tx.query('SHOW array_nulls')).rows))
    .runOnce()
  expect(seen).toEqual([[{ array_nulls: 'off' }]])
})
