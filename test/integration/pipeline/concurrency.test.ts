import { describe, expect } from 'vitest'
import { raisedFlag } from '../../support/rows/flag.ts'
import { unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { Steps } from '../../support/steps.ts'
import { waitFor } from '../../support/wait.ts'

/** A handler whose calls wait until the test lets them end. */
class Held {
  readonly #waiting: (() => void)[] = []
  #running = 0
  most = 0

  readonly handle = async (): Promise<void> => {
    this.#running += 1
    this.most = Math.max(this.most, this.#running)
    await new Promise<void>((resolve) => this.#waiting.push(resolve))
    this.#running -= 1
  }

  get running(): number {
    return this.#running
  }

  /** Lets so many calls end. */
  release(calls: number): void {
    for (const end of this.#waiting.splice(0, calls)) end()
  }

  async untilRunning(calls: number): Promise<void> {
    await waitFor(() => this.#waiting.length === calls, { what: `${calls} handlers that run` })
  }
}

const numbers = (count: number) => Array.from({ length: count }, (_, at) => at)

describe.for(['transactional', 'leased'] as const)('in %s mode', (mode) => {
  // Both modes have these options.
  const options = { mode: mode as 'transactional', concurrency: 2, batchSize: mode === 'leased' ? 10 : 1 }

  test('a pipeline that gets more concurrency claims at once', async ({ sluice, queue }) => {
    await put(sluice, queue, numbers(20))
    const held = new Held()
    const running = sluice.pipeline(queue, options).handle(held.handle).start()
    await held.untilRunning(2)
    running.setConcurrency(5)
    expect(running.concurrency).toBe(5)
    await held.untilRunning(5)
    held.release(1)
    await held.untilRunning(5)
    expect(held.most).toBe(5)
    const drained = running.drain()
    held.release(5)
    await drained
  })

  test('a pipeline that gets less claims nothing until there is room, and never more than that', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, numbers(20))
    const held = new Held()
    const running = sluice
      .pipeline(queue, { ...options, concurrency: 6 })
      .handle(held.handle)
      .start()
    await held.untilRunning(6)
    running.setConcurrency(2)
    held.release(3)
    await held.untilRunning(3)
    held.release(1)
    await held.untilRunning(2)
    held.most = 0
    const ticking = setInterval(() => held.release(1), 2)
    await untilEmpty(database, queue)
    clearInterval(ticking)
    expect(held.most).toBeLessThanOrEqual(2)
  })

  test('one that gets less while it sleeps is still woken by an enqueue, with as much as it has left', async ({
    sluice,
    queue,
    database,
  }) => {
    const held = new Held()
    const running = sluice
      .pipeline(queue, { ...options, concurrency: 8 })
      .handle(held.handle)
      .start()
    /** Lets the calls end one by one until the queue is empty. */
    const finish = async () => {
      const ticking = setInterval(() => held.release(1), 2)
      await untilEmpty(database, queue)
      clearInterval(ticking)
    }
    for (const concurrency of [1, 3, 2]) {
      await raisedFlag(database, queue)
      running.setConcurrency(concurrency)
      // It claims once more after it has raised the flag. That claim may have been sent for as many as it had before.
      await put(sluice, queue, numbers(5))
      await finish()
      await raisedFlag(database, queue)
      held.most = 0
      await put(sluice, queue, numbers(5))
      await held.untilRunning(concurrency)
      await finish()
      expect(held.most).toBe(concurrency)
    }
  })

  test('what is set before it has connected holds from its first claim', async ({ sluice, queue }) => {
    await put(sluice, queue, numbers(4))
    const held = new Held()
    const running = sluice.pipeline(queue, options).handle(held.handle).start()
    running.setConcurrency(1)
    await held.untilRunning(1)
    const drained = running.drain()
    held.release(1)
    await drained
    expect(held.most).toBe(1)
  })

  test('expected are whole numbers within the bounds', async ({ sluice, queue }) => {
    const running = sluice
      .pipeline(queue, options)
      .handle(() => undefined)
      .start()
    for (const wrong of [0, 1.5, 10_001, Number.NaN])
      expect(() => running.setConcurrency(wrong)).toThrow(/setConcurrency: expected an integer from 1 to/)
    expect(running.concurrency).toBe(2)
  })

  test('a throttled pipeline claims no more often than it says, with several runners', async ({
    sluice,
    queue,
    database,
  }) => {
    await put(sluice, queue, numbers(21))
    const claimedAt: number[] = []
    sluice.events.subscribe((event) => {
      if (event.kind === 'batch.claimed') claimedAt.push(performance.now())
    })
    sluice
      .pipeline(queue, { ...options, batchSize: 1, throttle: '40ms' })
      .handle(() => undefined)
      .start()
    await untilEmpty(database, queue)
    expect(claimedAt).toHaveLength(21)
    // The answers of two claims may come closer to each other than the claims have left, on a busy machine by far.
    expect(claimedAt.at(-1)! - claimedAt[0]!).toBeGreaterThan(10 * 40)
  })
})

describe('a delayed start', () => {
  test('opens no connection and handles nothing before its time', async ({ sluice, queue, log }) => {
    await put(sluice, queue, [1])
    const started = performance.now()
    const handled = Promise.withResolvers<number>()
    sluice
      .pipeline(queue)
      .handle(() => handled.resolve(performance.now() - started))
      .start({ delay: '60ms' })
    expect(log.of('worker.started')).toEqual([])
    expect(await handled.promise).toBeGreaterThanOrEqual(59)
  })

  test('ends at once when it is drained, stopped or the Sluice stops, and starts nothing then', async ({
    sluice,
    queue,
    log,
  }) => {
    const pipelines = [1, 2, 3].map(() => sluice.pipeline(queue).handle(() => undefined))
    const [drained, stopped, left] = pipelines.map((pipeline) => pipeline.start({ delay: '1h' }))
    expect(await drained!.drain()).toEqual({ completed: true })
    await stopped!.stop()
    await sluice.stop()
    await Promise.all([drained!.ended, stopped!.ended, left!.ended])
    expect(log.of('pipeline.started')).toEqual([])
  })

  test('is at most a day, and has no other options', ({ sluice, queue }) => {
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    expect(() => pipeline.start({ delay: '25h' })).toThrow(/start.delay: expected a duration/)
    expect(() => pipeline.start({ after: '1s' } as never)).toThrow(/start: expected only the options delay/)
  })
})

test('two messages go to two runners, and the third to the one that is free first', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue, { concurrency: 2, batchSize: 1 }).handle(steps.handle).subscribe()
  await put(sluice, queue, ['one', 'two', 'three'])
  const [first, second] = [await steps.next(), await steps.next()]
  expect([first.payload, second.payload].toSorted()).toEqual(['one', 'two'])
  expect(first.worker).not.toBe(second.worker)
  second.end()
  const third = await steps.next()
  expect([third.payload, third.worker]).toEqual(['three', second.worker])
  third.end()
  first.end()
  await untilEmpty(database, queue)
  expect(steps.taken).toHaveLength(3)
})

test('a batch of two locks two messages and no more, and one connection handles them and the third', async ({
  database,
  sluice,
  queue,
}) => {
  const steps = new Steps()
  sluice.pipeline(queue, { batchSize: 2 }).handle(steps.handle).subscribe()
  await put(sluice, queue, ['first', 'second', 'third'])
  const first = await steps.next()
  expect(await unlockedPayloads(database, queue)).toEqual(['third'])
  expect(steps.payloads).toEqual(['first'])
  first.end()
  const second = await steps.next()
  expect(await unlockedPayloads(database, queue)).toEqual(['third'])
  second.end()
  await steps.endNext()
  expect(steps.payloads).toEqual(['first', 'second', 'third'])
  expect(new Set(steps.taken.map(({ worker }) => worker)).size).toBe(1)
})
