import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { append, jumpSegment } from '../../support/rows/streams.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/streams.ts'

const REFUSED = { code: '25001', hint: 'Begin with BEGIN ISOLATION LEVEL READ COMMITTED.' }

const READS_AND_MOVES = [
  ['a trim', 'SELECT sluice.trim_stream($1, 6)'],
  ['a dry run of a trim', 'SELECT sluice.trim_stream($1, 6, dry_run => true)'],
  ['the positions at a time', "SELECT sluice.stream_positions($1, 'time', at_time => 'epoch')"],
  ['the stable ends of a read', 'SELECT FROM sluice_private.stream_stable_ends($1)'],
  ['a new group', "SELECT sluice.create_group($1, 'new')"],
  ['a move', "SELECT sluice.seek_group($1, 'all', '{0}')"],
  ['a change of what becomes of failures', "SELECT sluice.group_set($1, 'all', on_failure => 'stop')"],
  ['a retry of partitions', "SELECT sluice.retry_partitions($1, 'all')"],
  ['a skip', "SELECT sluice.skip_event($1, 'all', 1)"],
  ['the end of a group', "SELECT FROM sluice.delete_group($1, 'all')"],
] as const

describe.for(['REPEATABLE READ', 'SERIALIZABLE'] as const)('under the one snapshot of %s', (level) => {
  test('what judges by the log and by its live positions is refused', async ({ database, stream }) => {
    const client = await holding(database, level)
    await append(database, stream, 5)
    for (const [what, sql] of READS_AND_MOVES) {
      await client.query('SAVEPOINT before')
      await expect(client.query(sql, [stream]), what).rejects.toMatchObject(REFUSED)
      await client.query('ROLLBACK TO before')
    }
    expect(
      await database.sql('SELECT unread::integer, lost_from FROM sluice.groups WHERE stream = $1', [stream]),
    ).toEqual([{ unread: 5, lost_from: null }])
  })

  test('no pass of maintenance takes what a group has not read', async ({ database, stream }) => {
    await database.sql(`SELECT sluice.create_stream($1, retain => '1 second')`, [stream])
    const client = await holding(database, level)
    await append(database, stream, 5)
    await jumpSegment(database, stream)
    await database.sql(`UPDATE sluice.segment SET closed_at = closed_at - interval '1 day'`)
    await expect(client.query('SELECT sluice.keep_segments()')).rejects.toMatchObject(REFUSED)
    await client.query(`ROLLBACK; BEGIN ISOLATION LEVEL ${level}`)
    await expect(client.query('SELECT sluice.drop_segment(1, 0)')).rejects.toMatchObject(REFUSED)
  })

  test('a stream is made beside others that are newer, unless one of them has its name', async ({
    database,
    stream,
  }) => {
    const client = await holding(database, level)
    await database.sql('SELECT sluice.create_stream($1)', [`${stream}.newer`])
    const create = 'SELECT sluice.create_stream($1) AS made'
    expect((await client.query(create, [`${stream}.own`])).rows).toEqual([{ made: true }])
    await expect(client.query(create, [`${stream}.newer`])).rejects.toMatchObject({ code: '40001' })
  })

  test('an append, an end and a group that is there are as always', async ({ database, stream }) => {
    const client = await holding(database, level)
    await append(database, stream, 5)
    const { rows } = await client.query<{ at: string }>("SELECT sluice.append($1, '1') AS at", [stream])
    expect(rows).toEqual([{ at: '6' }])
    expect((await client.query("SELECT sluice.create_group($1, 'all') AS made", [stream])).rows).toEqual([
      { made: false },
    ])
    await client.query("SELECT sluice.stream_positions($1, 'end')", [stream])
    await client.query('COMMIT')
  })
})

/** A transaction whose snapshot is older than what the test does next. */
async function holding(database: TestDatabase, level: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onTestFinished(() => client.end())
  await client.query(`BEGIN ISOLATION LEVEL ${level}`)
  await client.query('SELECT count(*) FROM sluice.stream')
  return client
}
