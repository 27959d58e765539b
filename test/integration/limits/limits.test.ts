import { describe, expect } from 'vitest'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { deferred, waitFor } from '../../support/wait.ts'

/** Counts the handlers that run at the same time. */
class Gauge {
  now = 0
  most = 0
  handled = 0;

  async in(work: () => Promise<unknown>): Promise<void> {
    this.now += 1
    this.most = Math.max(this.most, this.now)
    try {
      await work()
      this.handled += 1
    } finally {
      this.now -= 1
    }
  }
}

describe.each(['transactional', 'leased'] as const)('a limit of messages in flight, in %s mode', (mode) => {
  const options = { mode, concurrency: 6, batchSize: 3 } as never

  test('holds over all processes, and all messages are handled', async ({ queue, database }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    const gauge = new Gauge()
    const sluices = [startTestSluice(database), startTestSluice(database)]
    for (const sluice of sluices) {
      sluice
        .pipeline(queue, options)
        .handle(() => gauge.in(() => new Promise((resolve) => setTimeout(resolve, 5))))
        .start()
    }
    await put(
      sluices[0]!,
      queue,
      Array.from({ length: 40 }, (_, at) => at),
    )
    await waitFor(() => gauge.handled === 40, { what: 'all to be handled' })
    expect(gauge.most).toBe(2)
  })

  test('leaves what waits ready, unlocked and with no attempt counted', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 1 })
    const go = deferred()
    const began = deferred()
    await put(sluice, queue, [1, 2, 3])
    sluice
      .pipeline(queue, options)
      .handle(async () => {
        began.resolve()
        await go.promise
      })
      .start()
    await began.promise
    const rows = await database.sql(
      'SELECT m.attempt FROM sluice.message m WHERE m.queue = $1 AND m.due_at <= clock_timestamp() FOR UPDATE SKIP LOCKED',
      [queue],
    )
    expect(rows).toEqual([{ attempt: 0 }, { attempt: 0 }])
    go.resolve()
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.message WHERE queue = $1', [queue])).length === 0,
      {
        what: 'the queue to be empty',
      },
    )
  })
})

test('a pipeline that is given more runners shares a limit among them', async ({ queue, database, sluice }) => {
  await setQueueColumns(database, queue, { concurrency: 4 })
  const go = deferred()
  const gauge = new Gauge()
  const pipeline = sluice.pipeline(queue, { concurrency: 1, batchSize: 4 }).handle(() => gauge.in(() => go.promise))
  const run = pipeline.start()
  run.setConcurrency(4)
  await put(sluice, queue, [1, 2, 3, 4])
  await waitFor(() => gauge.now === 4, { what: 'four messages to be handled at a time' })
  go.resolve()
  await waitFor(() => gauge.handled === 4, { what: 'all to be handled' })
})

describe('a claim', () => {
  test('takes no more than the limit leaves, until it is settled, released or over', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    await put(sluice, queue, [1, 2, 3, 4])
    const claim = await sluice.claim(queue, { limit: 10 })
    expect(claim?.messages).toHaveLength(2)
    expect(await sluice.claim(queue)).toBeUndefined()
    expect(await sluice.pop(queue)).toEqual([])
    await claim?.settle(claim.messages[0]!)
    const second = await sluice.claim(queue)
    expect(second?.messages).toHaveLength(1)
    await claim?.release()
    const third = await sluice.claim(queue, { lease: '1s' })
    expect(third?.messages).toHaveLength(1)
    expect(await sluice.claim(queue)).toBeUndefined()
    await waitFor(async () => (await sluice.claim(queue)) !== undefined, { what: 'the third claim to be over' })
    await second?.release()
  })

  test('leaves pipelines what it has not', async ({ queue, database, sluice }) => {
    await setQueueColumns(database, queue, { concurrency: 2 })
    await put(sluice, queue, [1, 2, 3])
    const claim = await sluice.claim(queue, { limit: 1 })
    const go = deferred()
    let running = 0
    sluice
      .pipeline(queue, { concurrency: 3, batchSize: 1 })
      .handle(async () => {
        running += 1
        await go.promise
      })
      .start()
    await waitFor(() => running === 1, { what: 'one to run' })
    expect(await sluice.claim(queue)).toBeUndefined()
    await claim?.release()
    await waitFor(() => running === 2, { what: 'a second to run' })
    go.resolve()
    await waitFor(() => running === 3, { what: 'the third to run' })
  })
})

describe('a limit that changes', () => {
  test('is in force at the next claim: nothing is claimed until fewer are in flight', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { concurrency: 4 })
    await put(
      sluice,
      queue,
      Array.from({ length: 12 }, (_, at) => at),
    )
    const claims = await Promise.all([1, 2, 3, 4].map(() => sluice.claim(queue, { limit: 1 })))
    const held = () => claims.filter((claim) => claim !== undefined)
    while (held().length < 4) claims.push(await sluice.claim(queue, { limit: 1 }))
    await setQueueColumns(database, queue, { concurrency: 2 })
    for (const claim of held().slice(0, 2)) {
      expect(await sluice.claim(queue)).toBeUndefined()
      await claim.settle(claim.messages)
    }
    expect(await sluice.claim(queue)).toBeUndefined()
    const [third, fourth] = held().slice(2)
    await third?.settle(third.messages)
    const next = await sluice.claim(queue, { limit: 5 })
    expect(next?.messages).toHaveLength(1)
    await setQueueColumns(database, queue, { concurrency: 5 })
    const more = await sluice.claim(queue, { limit: 9 })
    expect(more?.messages).toHaveLength(3)
    await Promise.all([fourth, next, more].map((claim) => claim?.release()))
  })
})

describe.each(['transactional', 'leased'] as const)('the first limit of a queue, in %s mode', (mode) => {
  test('is in force although the queue is never empty', async ({ queue, database, sluice, log }) => {
    const options = { mode, concurrency: 1, batchSize: 1 } as never
    await put(
      sluice,
      queue,
      Array.from({ length: 50 }, (_, at) => at),
    )
    const other = `${queue}.other`
    sluice
      .pipeline(other)
      .handle(() => undefined)
      .start()
    let begun = 0
    sluice
      .pipeline(queue, options)
      .handle(async () => {
        begun += 1
        if (begun > 1) return
        await setQueueColumns(database, queue, { rate: 1, rate_ms: 3_600_000, rate_burst: 1 })
        // The settings of all queues are read together.
        await sluice.operate.queues.pause(other)
        await log.first('pipeline.paused')
      })
      .start()
    const asked = () => database.sql('SELECT FROM sluice.bucket WHERE queue = $1 AND tokens < 1', [queue])
    await waitFor(async () => begun === 50 || (await asked()).length > 0, { what: 'a claim that asks for a token' })
    await waitFor(() => begun > 1, { what: 'the message that has it' })
    expect(begun).toBe(2)
  })
})

describe.each(['transactional', 'leased'] as const)('a rate, in %s mode', (mode) => {
  const options = { mode, concurrency: 4, batchSize: 5 } as never

  test('holds over all processes', async ({ queue, database }) => {
    await setQueueColumns(database, queue, { rate: 20, rate_ms: 1_000, rate_burst: 5 })
    const begun: number[] = []
    const sluices = [startTestSluice(database), startTestSluice(database)]
    for (const sluice of sluices) {
      sluice
        .pipeline(queue, options)
        .handle(() => {
          begun.push(performance.now())
        })
        .start()
    }
    // The bucket is made by the first claim that finds messages.
    const before = performance.now()
    await put(
      sluices[0]!,
      queue,
      Array.from({ length: 25 }, (_, at) => at),
    )
    await waitFor(() => begun.length === 25, { what: 'all to be handled' })
    for (const [at, time] of begun.entries()) expect(time - before).toBeGreaterThan((at - 5) * 50)
  })

  test('asks no more often than there are tokens, and lets a change end the wait', async ({
    queue,
    database,
    sluice,
  }) => {
    await setQueueColumns(database, queue, { rate: 1, rate_ms: 3_600_000, rate_burst: 2 })
    let begun = 0
    sluice
      .pipeline(queue, options)
      .handle(() => {
        begun += 1
      })
      .start()
    await put(sluice, queue, [1, 2, 3])
    await waitFor(() => begun === 2, { what: 'the burst to be used' })
    // Each enqueue notifies, and none of them is a reason to ask for a token.
    for (let at = 0; at < 20; at += 1) await put(sluice, queue, [at])
    expect(begun).toBe(2)
    await setQueueColumns(database, queue, { rate: null })
    await waitFor(() => begun === 23, { what: 'the others to be handled' })
  })
})
