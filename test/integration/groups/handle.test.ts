import { describe, expect } from 'vitest'
import type { Message } from '../../../src/message.ts'
import { EventLog } from '../../support/event-log.ts'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'

describe('a group of a stream', () => {
  test('gets every event once, in order, and begins where it has ended', async ({ database, sluice, stream }) => {
    const positions = await append(database, stream, [[1, 'a'], [2, 'a'], [3, 'b'], [4], [5, 'a']])
    const seen: Message[] = []
    const pipeline = sluice.pipeline(stream, { group: 'all' }).handle((event) => void seen.push(event))
    const settled = await pipeline.runOnce()
    expect(settled.counts.acked).toBe(5)
    expect(seen.map(({ position }) => position).toSorted((a, b) => Number(a) - Number(b))).toEqual(positions)
    expect(seen.filter(({ orderingKey }) => orderingKey === 'a').map(({ payload }) => payload)).toEqual([1, 2, 5])
    expect(seen[0]).toMatchObject({ stream, queue: `${stream}:all`, attempt: 1, id: `${stream}/${seen[0]?.position}` })
    expect((await pipeline.runOnce()).counts.acked).toBe(0)
    await append(database, stream, [[6, 'a']])
    expect((await pipeline.runOnce()).counts.acked).toBe(1)
  })

  test('a failed event is tried again, and the later ones of its key wait for it', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, [[1, 'a'], [2, 'a'], [3, 'b'], [4, 'b'], [5]])
    const seen: string[] = []
    let fails = true
    const pipeline = sluice
      .pipeline(stream, { group: 'all', retry: { kind: 'fixed', delay: '1h' } })
      .handle(({ payload, attempt }) => {
        seen.push(`${payload}#${attempt}`)
        if (payload === 1 && fails) raise('no')
      })
    await pipeline.runOnce()
    fails = false
    expect(
      await database.sql(
        'SELECT payload, event_position::int, attempt, lease::int FROM sluice.message WHERE queue = $1 ORDER BY id',
        [`${stream}:all`],
      ),
    ).toMatchObject([{ payload: 1 }, { payload: 2 }])
    await append(database, stream, [[6, 'a']])
    await database.sql('UPDATE sluice.message SET due_at = clock_timestamp() WHERE attempt = 1')
    await pipeline.runOnce()
    expect(seen.filter((one) => /^[126]/.test(one))).toEqual(['1#1', '1#2', '2#1', '6#1'])
    expect(seen).toHaveLength(7)
  })

  test('has events that bear the name of its queue, from the start of a pipeline to its end', async ({
    database,
    sluice,
    stream,
  }) => {
    const queue = `${stream}:all`
    const all = new EventLog(sluice.events)
    const pipeline = sluice
      .pipeline(stream, { group: 'all' })
      .handle(() => undefined)
      .start()
    const own = new EventLog(pipeline.events)
    await append(database, stream, [[1]])
    await own.first('batch.committed')
    await pipeline.drain()
    expect(pipeline.queue).toBe(queue)
    expect(all.of('pipeline.started')).toEqual([
      { kind: 'pipeline.started', queue, mode: 'transactional', concurrency: 1, batchSize: 10 },
    ])
    expect(all.of('pipeline.stopped')).toEqual([{ kind: 'pipeline.stopped', queue }])
  })

  test('an idle group is woken by an append', async ({ database, sluice, stream }) => {
    const got = Promise.withResolvers<unknown>()
    const pipeline = sluice
      .pipeline(stream, { group: 'all' })
      .handle(({ payload }) => got.resolve(payload))
      .start()
    await append(database, stream, [['hello']])
    expect(await got.promise).toBe('hello')
    await pipeline.drain()
  })
})
