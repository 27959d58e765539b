import { expect, onTestFinished } from 'vitest'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

test('a session that has locked a deferred event of a group holds up its key alone', async ({
  database,
  sluice,
  stream,
}) => {
  await append(database, stream, [
    ['first', 'a'],
    ['second', 'a'],
  ])
  const failing = sluice
    .pipeline(stream, { group: 'all', retry: { kind: 'fixed', delay: '1h' } })
    .handle(() => raise('no'))
  await failing.runOnce()
  const [event] = await database.sql<{ failed: string; deferred: string }>(
    `SELECT min(m.id)::text AS failed, max(m.id)::text AS deferred FROM sluice.message m WHERE m.queue = $1 || ':all'`,
    [stream],
  )
  await database.sql(`SELECT sluice.run_now($1 || ':all', $2)`, [stream, event?.failed])

  const session = await database.pool.connect()
  onTestFinished(() => session.release())
  await session.query('BEGIN')
  await session.query(`SELECT FROM sluice.message WHERE queue = $1 || ':all' AND id = $2 FOR UPDATE`, [
    stream,
    event?.deferred,
  ])
  await append(
    database,
    stream,
    Array.from({ length: 20 }, (_, n) => [n, `key ${n}`] as const),
  )
  const handled: unknown[] = []
  const pipeline = sluice
    .pipeline(stream, { group: 'all', concurrency: 1 })
    .handle(({ payload }) => void handled.push(payload))
    .start()
  await waitFor(() => handled.length === 21, { what: 'the other events to be handled' })
  expect(handled).not.toContain('second')
  await session.query('ROLLBACK')
  await waitFor(() => handled.length === 22, { what: 'the deferred event to be handled' })
  expect(handled[21]).toBe('second')
  await pipeline.drain()
})
