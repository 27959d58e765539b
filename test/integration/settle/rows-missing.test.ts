import { describe, expect } from 'vitest'
import { isSluiceError } from '../../../src/errors.ts'
import { ack, deadLetter, type Outcome, retryLater, snooze } from '../../../src/message.ts'
import { EventLog } from '../../support/event-log.ts'
import { bury } from '../../support/rows/operations.ts'
import { test as base } from '../../support/servers/logins.ts'
import { put, startTestSluice } from '../../support/sluice.ts'

let queues = 0

const test = base
  .extend('queue', () => `q.${++queues}`)
  .extend('table', { scope: 'file' }, async ({ database }) => {
    await database.sql(`
      CREATE TABLE effect (queue text);
      CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`)
    return 'effect'
  })

/** What an application may do with a message, and the table that a trigger keeps from following. */
const OUTCOMES: Readonly<
  Record<
    string,
    {
      readonly outcome: () => Outcome | undefined
      readonly key?: string
      readonly on: string
      /** A failed attempt cannot be written either. */
      readonly stays?: boolean
    }
  >
> = {
  'an ack': { outcome: () => undefined, on: 'DELETE ON sluice.message' },
  'a retry': { outcome: () => retryLater({ after: '1h' }), on: 'UPDATE ON sluice.message', stays: true },
  'a snooze': { outcome: () => snooze({ after: '1h' }), on: 'UPDATE ON sluice.message', stays: true },
  'a dead letter that does not leave': { outcome: () => deadLetter('no good'), on: 'DELETE ON sluice.message' },
  'a dead letter that does not arrive': { outcome: () => deadLetter('no good'), on: 'INSERT ON sluice.dead_letter' },
  'a key that is not held': {
    outcome: () => snooze({ after: '1h' }),
    key: 'k',
    on: 'UPDATE ON sluice.slot',
    stays: true,
  },
}

/** However slow the run is, it does not come to the next attempts. */
const LATER = { retry: { kind: 'fixed', delay: '1h' } } as const

const SAYS_WHY = expect.stringMatching(
  /sluice\.\w+: expected to settle \d row\(s\) of queue "q\.\d+", left \d .*Look for/,
)

describe.for(Object.entries(OUTCOMES))('%s that a trigger swallows', ([, { outcome, key, on, stays = false }]) => {
  test('rolls its batch back with all effects, says why, and is a failed attempt if that can be written', async ({
    database,
    queue,
    table,
  }) => {
    const row = on.startsWith('INSERT') ? 'NEW' : 'OLD'
    await database.sql(`
      CREATE TRIGGER swallow BEFORE ${on} FOR EACH ROW WHEN (${row}.queue = '${queue}') EXECUTE FUNCTION swallow()`)
    try {
      const sluice = startTestSluice(database)
      const log = new EventLog(sluice.events)
      await put(sluice, queue, [1, 2, 3], { orderingKey: key })
      const pipeline = sluice
        .pipeline(queue, { batchSize: key === undefined ? 3 : 1, ...LATER })
        .handle(async (_, { tx }) => {
          await tx.query(`INSERT INTO ${table} VALUES ($1)`, [queue])
          return outcome()
        })
      const ended = pipeline.runOnce()
      if (stays) await expect(ended).rejects.toMatchObject({ code: 'ROWS_MISSING', message: SAYS_WHY })
      else expect((await ended).map((settled) => settled.outcome)).toMatchObject(Array(3).fill({ error: SAYS_WHY }))
      const released = log.of('batch.released')
      expect(released.length).toBeGreaterThan(0)
      expect(released).toMatchObject(Array(released.length).fill({ error: { code: 'ROWS_MISSING' } }))
      expect(log.of('batch.committed')).toEqual([])
      expect(await database.sql(`SELECT FROM ${table} WHERE queue = $1`, [queue])).toEqual([])
      expect(await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual(
        Array(3).fill({ attempt: stays ? 0 : 1 }),
      )
    } finally {
      await database.sql(`DROP TRIGGER swallow ON ${on.split(' ')[2]}`)
    }
  })
})

test('P2: a message that cannot be removed is put aside when it is out of attempts, and the others go on', async ({
  database,
  queue,
  table: _,
}) => {
  const sluice = startTestSluice(database)
  const [stuck] = await put(sluice, queue, [1, 2, 3, 4, 5])
  await database.sql(`
    CREATE TRIGGER swallow BEFORE DELETE ON sluice.message FOR EACH ROW WHEN (OLD.id = ${stuck}) EXECUTE FUNCTION swallow()`)
  try {
    await sluice
      .pipeline(queue, { maxAttempts: 1 })
      .handle(() => undefined)
      .runOnce()
    expect(await database.sql('SELECT id, state FROM sluice.messages WHERE queue = $1', [queue])).toEqual([
      { id: stuck, state: 'scheduled' },
    ])
  } finally {
    await database.sql('DROP TRIGGER swallow ON sluice.message')
  }
})

describe('a message that its own handler removes', () => {
  test.for([
    ['acked', ack()],
    ['snoozed', snooze({ after: '1h' })],
    ['buried', deadLetter('no good')],
  ] as const)('may be %s: there is nothing left to do', async ([what, outcome], { database, queue, table }) => {
    const sluice = startTestSluice(database)
    const log = new EventLog(sluice.events)
    await put(sluice, queue, [1, 2, 3])
    await sluice
      .pipeline(queue, { batchSize: 3 })
      .handle(async ({ id, payload }, { tx }) => {
        await tx.query(`INSERT INTO ${table} VALUES ($1)`, [queue])
        if (payload !== 2) return undefined
        await tx.query('DELETE FROM sluice.message WHERE id = $1', [id])
        return outcome
      })
      .runOnce()
    expect(log.of('batch.committed')).toHaveLength(1)
    expect(await database.sql(`SELECT FROM ${table} WHERE queue = $1`, [queue])).toHaveLength(what === 'buried' ? 2 : 3)
    expect(log.of('batch.released')).toEqual([])
  })
})

test('a policy without DELETE rolls the batch back, and each message fails by itself', async ({
  database,
  login,
  queue,
  table,
}) => {
  const worker = await login('sluice_worker')
  await database.sql(`
    GRANT INSERT ON ${table} TO ${worker.name};
    ALTER TABLE sluice.message ENABLE ROW LEVEL SECURITY;
    CREATE POLICY look ON sluice.message FOR SELECT USING (true);
    CREATE POLICY change ON sluice.message FOR UPDATE USING (true)`)
  try {
    const sluice = startTestSluice(worker)
    await put(startTestSluice(database), queue, [1, 2, 3])
    const pipeline = sluice
      .pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } })
      .handle(async (_, { tx }) => void (await tx.query(`INSERT INTO ${table} VALUES ($1)`, [queue])))
    expect((await pipeline.runOnce()).map(({ outcome }) => outcome)).toMatchObject(Array(3).fill({ error: SAYS_WHY }))
    expect(await database.sql(`SELECT FROM ${table} WHERE queue = $1`, [queue])).toEqual([])
  } finally {
    await database.sql(`
      ALTER TABLE sluice.message DISABLE ROW LEVEL SECURITY;
      DROP POLICY look ON sluice.message; DROP POLICY change ON sluice.message`)
  }
})

test('a policy without UPDATE leaves the messages where they are, as a claim locks rows', async ({
  database,
  login,
  queue,
}) => {
  const worker = await login('sluice_worker')
  await database.sql(`
    ALTER TABLE sluice.message ENABLE ROW LEVEL SECURITY;
    CREATE POLICY look ON sluice.message FOR SELECT USING (true);
    CREATE POLICY remove ON sluice.message FOR DELETE USING (true)`)
  try {
    await put(startTestSluice(database), queue, [1, 2, 3])
    const settled = await startTestSluice(worker)
      .pipeline(queue)
      .handle(() => undefined)
      .runOnce()
    expect(settled).toEqual([])
    expect(await worker.sql('SELECT ready FROM sluice.queues WHERE queue = $1', [queue])).toEqual([{ ready: '3' }])
  } finally {
    await database.sql(`
      ALTER TABLE sluice.message DISABLE ROW LEVEL SECURITY;
      DROP POLICY look ON sluice.message; DROP POLICY remove ON sluice.message`)
  }
})

test('an operator of another schema rolls the batch back, and says why', async ({ database, queue, table }) => {
  await database.sql(`
    CREATE SCHEMA odd;
    CREATE FUNCTION odd.never(bigint, bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS 'SELECT false';
    CREATE OPERATOR odd.= (FUNCTION = odd.never, LEFTARG = bigint, RIGHTARG = bigint)`)
  const url = new URL(database.url)
  url.searchParams.set('options', '-c search_path=odd,pg_catalog,public')
  const sluice = startTestSluice(database, { connection: url.href, directConnection: database.url })
  await put(startTestSluice(database), queue, [1, 2, 3])
  const pipeline = sluice
    .pipeline(queue)
    .handle(async (_, { tx }) => void (await tx.query(`INSERT INTO ${table} VALUES ($1)`, [queue])))
  await expect(pipeline.runOnce()).rejects.toMatchObject({ code: 'ROWS_MISSING' })
  expect(await database.sql(`SELECT FROM ${table} WHERE queue = $1`, [queue])).toEqual([])
})

describe('an INSERT that a trigger swallows', () => {
  test('throws, whether the library, SQL or a redrive enqueues', async ({ database, queue, table: _ }) => {
    const sluice = startTestSluice(database)
    await bury(database, { queue, count: 2 })
    await database.sql(`
      CREATE TRIGGER swallow BEFORE INSERT ON sluice.message FOR EACH ROW WHEN (NEW.queue = '${queue}') EXECUTE FUNCTION swallow()`)
    try {
      const enqueued = sluice.enqueue(sluice.ownTransaction, queue, 1)
      await expect(enqueued).rejects.toSatisfy((error) => isSluiceError(error, 'ROWS_MISSING'))
      const refused = { code: 'SL001', message: expect.stringContaining('expected to take') }
      await expect(database.sql(`SELECT sluice.enqueue('${queue}', '1')`)).rejects.toMatchObject(refused)
      await expect(database.sql(`SELECT sluice.redrive('${queue}')`)).rejects.toMatchObject(refused)
      expect(await database.sql('SELECT FROM sluice.dead_letter WHERE queue = $1', [queue])).toHaveLength(2)
    } finally {
      await database.sql('DROP TRIGGER swallow ON sluice.message')
    }
  })
})

describe('a claim', () => {
  test.for<readonly [string, string, () => Outcome | undefined]>([
    ['an ack', 'DELETE', () => undefined],
    ['a snooze', 'UPDATE', () => snooze({ after: '1h' })],
    ['a dead letter', 'DELETE', () => deadLetter('no good')],
  ])('says so when a trigger swallows %s', async ([, event, outcome], { database, queue, table }) => {
    expect(table).toBe('effect')
    const sluice = startTestSluice(database)
    const ids = await put(sluice, queue, [1])
    const claim = await sluice.claim(queue)
    await database.sql(
      `CREATE TRIGGER swallow BEFORE ${event} ON sluice.message FOR EACH ROW EXECUTE FUNCTION swallow()`,
    )
    try {
      await expect(claim?.settle(ids, outcome())).rejects.toMatchObject({ code: 'ROWS_MISSING' })
    } finally {
      await database.sql('DROP TRIGGER swallow ON sluice.message')
    }
    expect(await claim?.settle(ids)).toEqual({ settled: ids, refused: [] })
  })

  test('fails where a policy for the owner would hide messages', async ({ database, login, queue }) => {
    const sluice = startTestSluice(database)
    await put(sluice, queue, [1])
    await database.sql(
      'ALTER TABLE sluice.message ENABLE ROW LEVEL SECURITY; ALTER TABLE sluice.message FORCE ROW LEVEL SECURITY',
    )
    const owner = await login()
    await database.sql(`ALTER FUNCTION sluice.claim OWNER TO ${owner.name}; GRANT ALL ON SCHEMA sluice, sluice_private TO ${owner.name};
      GRANT ALL ON ALL TABLES IN SCHEMA sluice TO ${owner.name}; GRANT ALL ON ALL FUNCTIONS IN SCHEMA sluice, sluice_private TO ${owner.name}`)
    try {
      await expect(sluice.claim(queue)).rejects.toMatchObject({
        cause: { message: expect.stringContaining('row-level security') },
      })
    } finally {
      await database.sql(`ALTER FUNCTION sluice.claim OWNER TO CURRENT_USER;
        ALTER TABLE sluice.message NO FORCE ROW LEVEL SECURITY; ALTER TABLE sluice.message DISABLE ROW LEVEL SECURITY`)
    }
    expect((await sluice.claim(queue))?.messages).toHaveLength(1)
  })
})
