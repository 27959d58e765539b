import { describe, expect } from 'vitest'
import { put, test } from '../../support/sluice.ts'

describe('a pass of maintenance', () => {
  test('writes down what queues have to do and groups have to read, once a minute', async ({
    sluice,
    queue,
    database,
  }) => {
    const stream = `${queue}.events`
    await put(sluice, queue, [1, 2])
    await put(sluice, `${queue}.later`, [1], { delay: '1h' })
    await sluice.streams.set(stream, { partitions: 1 })
    await sluice.groups.set(stream, 'g', { from: 'start' })
    await sluice.append(sluice.ownTransaction, stream, 1)
    await sluice.operate.maintain()
    await sluice.operate.maintain()
    const of = (name: string) => sluice.operate.queues.backlogHistory({ queue: name })
    expect(await of(queue)).toMatchObject([{ queue, due: 2, unread: 0, oldestUnreadAgeMs: null }])
    expect((await of(queue))[0]?.oldestDueAgeMs).toBeGreaterThanOrEqual(0)
    expect(await of(`${queue}.later`)).toMatchObject([{ due: 0, oldestDueAgeMs: null }])
    expect(await of(`${stream}:g`)).toMatchObject([{ due: 0, unread: 1, oldestUnreadAgeMs: expect.any(Number) }])
    expect((await sluice.operate.queues.backlogHistory()).map((sample) => sample.queue)).toEqual([queue, `${stream}:g`])
    await database.sql(`UPDATE sluice.backlog_sample SET at = at - interval '2 hours'`)
    await sluice.operate.maintain()
    expect(await of(queue)).toHaveLength(1)
    expect(await sluice.operate.queues.backlogHistory({ queue, since: '3h' })).toHaveLength(2)
    await database.sql(`UPDATE sluice.backlog_sample SET at = at - interval '2 days'`)
    await sluice.operate.maintain()
    expect(await sluice.operate.queues.backlogHistory({ queue, since: '2d' })).toHaveLength(1)
  })

  test('writes one sample if two processes do it at once', async ({ sluice, queue, database }) => {
    await put(sluice, queue, [1])
    await database.sql('TRUNCATE sluice.backlog_sample')
    const note = 'SELECT sluice_private.note_backlogs() AS noted'
    const first = await database.pool.connect()
    await first.query('BEGIN')
    const { rows } = await first.query(note)
    const besides = await database.sql(note)
    await first.query('COMMIT')
    first.release()
    expect([rows, besides]).toEqual([[{ noted: true }], [{ noted: false }]])
    expect(await database.sql('SELECT FROM sluice.backlog_sample')).toHaveLength(1)
  })

  test('writes nothing where there is no queue', async ({ sluice, database }) => {
    await database.sql('TRUNCATE sluice.message, sluice.backlog_sample')
    await database.sql('DELETE FROM sluice.stream_group')
    await sluice.operate.maintain()
    expect(await database.sql('SELECT FROM sluice.backlog_sample')).toEqual([])
  })
})
