import { describe, expect, onTestFinished } from 'vitest'
import { append } from '../../support/rows/streams.ts'
import { test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const GROUP = 'SELECT unread::integer, lost_from FROM sluice.groups WHERE stream = $1'

describe('a position that a query has not found', () => {
  for (const [what, sql] of [
    ['as the end of a trim', 'SELECT sluice.trim_stream($1, NULL, force => true)'],
    ['as whether it is forced', 'SELECT sluice.trim_stream($1, 6, force => NULL)'],
    ['as whether it is a dry run', 'SELECT sluice.trim_stream($1, 6, dry_run => NULL)'],
    ['as the offset of a group', "SELECT sluice.seek_group($1, 'all', NULL)"],
  ] as const) {
    test(`is refused ${what}, and changes nothing`, async ({ database, stream }) => {
      await append(database, stream, 5)
      await expect(database.sql(sql, [stream])).rejects.toMatchObject({ code: '22023' })
      expect(await database.sql(GROUP, [stream])).toEqual([{ unread: 5, lost_from: null }])
      expect(await database.sql('SELECT trimmed_to FROM sluice.stream WHERE stream = $1', [stream])).toEqual([
        { trimmed_to: '0' },
      ])
    })
  }
})

test('a trim names no group whose batch has read what is gone by then', async ({ database, stream }) => {
  await append(database, stream, 5)
  const batch = await database.pool.connect()
  onTestFinished(() => batch.release())
  await batch.query('BEGIN')
  await batch.query(
    `INSERT INTO sluice.group_progress (group_id, partition, position)
     SELECT g.id, partition, 5 FROM sluice.stream_group g, generate_series(0, 3) partition
     WHERE g.stream = $1 AND pg_advisory_xact_lock(746503, g.id << 6 | partition) IS NOT NULL`,
    [stream],
  )
  const trimmed = database.sql('SELECT events::integer, lost_by FROM sluice.trim_stream($1, 6, force => true)', [
    stream,
  ])
  await waitFor(async () => (await database.sql(GROUP_LOCK_WAITS)).length > 0, {
    what: 'the trim to wait for the batch',
  })
  await batch.query('COMMIT')
  expect(await trimmed).toEqual([{ events: 5, lost_by: [] }])
  expect(await database.sql(GROUP, [stream])).toEqual([{ unread: 0, lost_from: null }])
})

const GROUP_LOCK_WAITS = `SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
  WHERE d.datname = current_database() AND l.classid = 746503 AND NOT l.granted`
