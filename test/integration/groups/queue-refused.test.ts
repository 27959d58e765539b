import { describe, expect } from 'vitest'
import { isSluiceError } from '../../../src/errors.ts'
import { EventLog } from '../../support/event-log.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const REFUSED = {
  code: 'QUEUE_UNKNOWN',
  message: expect.stringMatching(/expected one that is not of a group, received "s\.\d+:all"\. Append to the stream/),
}

describe('the queue of a group', () => {
  test('takes no message, by no way to enqueue', async ({ database, sluice, stream }) => {
    const queue = `${stream}:all`
    const { ownTransaction: tx } = sluice
    const ways = [
      () => sluice.enqueue(tx, queue, 1),
      () => sluice.enqueue(tx, queue, 1, { orderingKey: 'k' }),
      () => sluice.enqueue(tx, queue, 1, { dedupe: { key: 'k' } }),
      () => sluice.enqueueMany(tx, queue, [{ payload: 1 }, { payload: 2 }]),
    ]
    for (const enqueue of ways) await expect(enqueue()).rejects.toMatchObject(REFUSED)
    await expect(database.sql('SELECT sluice.enqueue($1, $2)', [queue, '1'])).rejects.toMatchObject({ code: 'SL034' })
    const insert = "INSERT INTO sluice.message (queue, payload) VALUES ($1, '1')"
    await expect(database.sql(insert, [queue])).rejects.toMatchObject({ code: 'SL034' })
    await sluice.enqueue(tx, `${stream}:other`, 1)
  })

  test.for(['REPEATABLE READ', 'SERIALIZABLE'])(
    'takes no message from a transaction in %s that began before the group was made',
    async (isolation, { database, sluice, stream }) => {
      const queue = `${stream}:new`
      const client = await database.pool.connect()
      try {
        for (const refused of [false, true]) {
          await client.query(`BEGIN ISOLATION LEVEL ${isolation}`)
          await client.query('SELECT FROM sluice.stream')
          if (refused) await sluice.groups.set(stream, 'new')
          await sluice.enqueue(client, `${stream}:other`, 1)
          await sluice.enqueue(client, `${stream}:a:b`, 1)
          const enqueued = sluice.enqueue(client, queue, 1)
          await (refused ? expect(enqueued).rejects.toMatchObject({ code: 'QUEUE_UNKNOWN' }) : enqueued)
          await client.query(refused ? 'ROLLBACK' : 'COMMIT')
          if (!refused) await sluice.pop(queue)
        }
      } finally {
        client.release()
      }
      expect(await database.sql('SELECT FROM sluice.stream_group WHERE stream = $1', [stream])).toHaveLength(2)
    },
  )

  test('is consumed by its group alone', async ({ database, sluice, stream }) => {
    const queue = `${stream}:all`
    await append(database, stream, [[1]])
    const retry = { kind: 'fixed', delay: 0 } as const
    await sluice
      .pipeline(stream, { group: 'all', maxAttempts: 5, retry: { kind: 'fixed', delay: '1h' } })
      .handle(() => raise('no'))
      .runOnce()
    const other = startTestSluice(database)
    const pipelines = [
      other.pipeline(queue, { retry }).handle(() => undefined),
      other.pipeline(queue, { mode: 'leased', retry }).handle(() => undefined),
    ]
    for (const pipeline of pipelines) {
      await expect(pipeline.runOnce()).rejects.toMatchObject(REFUSED)
      await expect(pipeline.start().ended).rejects.toMatchObject(REFUSED)
    }
    await expect(sluice.claim(queue)).rejects.toMatchObject(REFUSED)
    await expect(sluice.pop(queue)).rejects.toMatchObject(REFUSED)
    expect(await database.sql('SELECT attempt FROM sluice.message WHERE queue = $1', [queue])).toEqual([{ attempt: 1 }])
  })

  test.for([
    ['transactional', { tenantConcurrency: null }],
    ['leased', { tenantConcurrency: null }],
    ['transactional', { tenantConcurrency: 1 }],
    ['leased', { tenantConcurrency: 1 }],
  ] as const)(
    'is left alone by a pipeline in %s mode, told %o, that had it before the group was made',
    async ([mode, settings], { database, sluice, stream }) => {
      const queue = `${stream}:late`
      await sluice.operate.queues.settings.set(queue, settings)
      const other = startTestSluice(database, { pollInterval: '1s' })
      const log = new EventLog(other.events)
      const taken: unknown[] = []
      const take = ({ payload }: { readonly payload: unknown }) => void taken.push(payload)
      if (mode === 'leased') other.pipeline(queue, { mode }).handle(take).start()
      else other.pipeline(queue).handle(take).start()
      await sluice.enqueue(sluice.ownTransaction, queue, 'before')
      await waitFor(() => taken.length === 1, { what: 'a message before the group is made' })
      await untilEmpty(database, queue)
      await sluice.groups.set(stream, 'late', { from: 'start' })
      await append(database, stream, [
        ['failed', 'k'],
        ['deferred', 'k'],
      ])
      await sluice
        .pipeline(stream, { group: 'late', maxAttempts: 5, retry: { kind: 'fixed', delay: '1h' } })
        .handle(() => raise('no'))
        .runOnce()
      await database.sql('UPDATE sluice.message SET due_at = clock_timestamp(), lease = NULL WHERE queue = $1', [queue])
      await waitFor(() => log.of('claim.failed').some(({ error }) => isSluiceError(error, 'QUEUE_UNKNOWN')), {
        what: 'a claim that is refused',
      })
      expect(taken).toEqual(['before'])
      await other.stop()
      expect(taken).toEqual(['before'])
    },
  )

  test('must be empty when the group is made', async ({ sluice, stream }) => {
    await sluice.enqueue(sluice.ownTransaction, `${stream}:late`, 1)
    await expect(sluice.groups.set(stream, 'late')).rejects.toThrow(`queue "${stream}:late" has messages`)
    await sluice.pop(`${stream}:late`)
    await sluice.groups.set(stream, 'late')
  })

  test('gets no message from a transaction that was open when the group was made', async ({
    database,
    sluice,
    stream,
  }) => {
    const queue = `${stream}:soon`
    const producer = await database.pool.connect()
    try {
      await producer.query('BEGIN')
      await sluice.enqueue(producer, queue, 1)
      const made = sluice.groups.set(stream, 'soon')
      made.catch(() => undefined)
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%create_group%'`
      await waitFor(async () => (await database.sql(waits)).length === 1, { what: 'the wait for the producer' })
      await producer.query('COMMIT')
      await expect(made).rejects.toThrow(`queue "${queue}" has messages`)
    } finally {
      producer.release()
    }
  })
})
