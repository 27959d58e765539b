import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test as base } from '../../support/sluice.ts'

let streams = 0

/** A stream of one partition. */
const test = base.extend('stream', async ({ database }) => {
  const stream = `s${++streams}`
  await database.sql('SELECT sluice.create_stream($1, 1)', [stream])
  return stream
})

describe('an open append', () => {
  test.for(['{}', '{0}', '{9}', '{-9}', '{4294967296}', '{NULL}', '{1,2}'])(
    'is not passed over if its session has written %s by hand into what remembers its floors',
    async (written, { database, stream }) => {
      const [{ id } = { id: 0 }] = await database.sql<{ id: number }>(
        'SELECT id FROM sluice.stream WHERE stream = $1',
        [stream],
      )
      const [forger, honest] = [await connect(database), await connect(database)]
      await forger.query(`BEGIN; SET LOCAL sluice.open_appends_${id} = '${written}'`)
      await forger.query("SELECT sluice.append($1, '1')", [stream])
      expect(await stableEndOf(database, stream)).toBe(0)
      await honest.query("SELECT sluice.append($1, '2')", [stream])
      expect(await stableEndOf(database, stream)).toBe(0)
      await forger.query('COMMIT')
      expect(await stableEndOf(database, stream)).toBe(2)
    },
  )

  test('keeps its lock if it ran in a cursor that failed later in a savepoint', async ({ database, stream }) => {
    const client = await connect(database)
    await client.query(`BEGIN; DECLARE events CURSOR FOR
      SELECT sluice.append('${stream}', to_jsonb(1 / (2 - n))) FROM generate_series(1, 2) AS n`)
    await client.query('FETCH 1 FROM events')
    await client.query('SAVEPOINT before')
    await expect(client.query('FETCH 1 FROM events')).rejects.toMatchObject({ code: '22012' })
    await client.query('ROLLBACK TO before')
    await database.sql("SELECT sluice.append($1, '2')", [stream])
    expect(await stableEndOf(database, stream)).toBe(0)
    await client.query("SELECT sluice.append($1, '3')", [stream])
    expect(await stableEndOf(database, stream)).toBe(0)
    await client.query('COMMIT')
    expect(await stableEndOf(database, stream)).toBe(3)
  })

  test('of a cursor is over with the savepoint in which it ran', async ({ database, stream }) => {
    const client = await connect(database)
    await client.query(
      `BEGIN; DECLARE events CURSOR FOR SELECT sluice.append('${stream}', '1') FROM generate_series(1, 2)`,
    )
    await client.query('SAVEPOINT before; FETCH 1 FROM events; ROLLBACK TO before')
    expect(await stableEndOf(database, stream)).toBe(1)
    await client.query('FETCH 1 FROM events')
    expect(await stableEndOf(database, stream)).toBe(1)
    await client.query('COMMIT')
    expect(await stableEndOf(database, stream)).toBe(2)
  })
})

/** Up to where the partition is stable. */
async function stableEndOf(database: TestDatabase, stream: string): Promise<number | undefined> {
  const [row] = await database.sql<{ stableEnd: number }>(
    'SELECT (sluice_private.stable_ends(s.id, s.positions))[2]::integer AS "stableEnd" FROM sluice.stream s WHERE s.stream = $1',
    [stream],
  )
  return row?.stableEnd
}

async function connect(database: TestDatabase): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
