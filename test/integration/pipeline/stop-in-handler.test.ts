import { once } from 'node:events'
import { setTimeout } from 'node:timers/promises'
import { expect } from 'vitest'
import { createSluice, type RunningPipeline, type Sluice } from '../../../src/index.ts'
import { payloadsOf } from '../../support/rows/rows.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'

interface Ends {
  readonly running: RunningPipeline
  readonly sluice: Sluice
}

const CALLS: readonly (readonly [name: string, call: (ends: Ends) => Promise<unknown>])[] = [
  ['running.drain()', ({ running }) => running.drain()],
  ['running.stop()', ({ running }) => running.stop()],
  ['sluice.stop()', ({ sluice }) => sluice.stop()],
]

const MODES = ['transactional', 'leased'] as const
const EVERY = CALLS.flatMap(([name, call]) => MODES.map((mode) => ({ name, call, mode })))

/** Long enough that a handler which waits for itself fails the test. */
const HOURS = { timeout: '1h' } as const

/** Starts a handler that makes the call for its first message, and returns what came of it. */
async function callInHandler(
  url: string,
  queue: string,
  mode: 'transactional' | 'leased',
  work: (ends: Ends) => unknown,
) {
  const sluice = createSluice({ connection: url, log: false })
  const began = Promise.withResolvers<Ends>()
  const came = Promise.withResolvers<unknown>()
  const handle = async () => {
    const ends = await began.promise
    // After what a handler has awaited, its frame is not on the stack any more.
    await setTimeout(1)
    came.resolve(await Promise.resolve(work(ends)).catch((error: unknown) => error))
  }
  const pipeline =
    mode === 'leased'
      ? sluice.pipeline(queue, { mode, ...HOURS }).handle(handle)
      : sluice.pipeline(queue, HOURS).handle(handle)
  await put(sluice, queue, [1])
  const running = pipeline.start()
  began.resolve({ running, sluice })
  return { sluice, running, came: await came.promise }
}

test.for(EVERY)(
  '$name that its own handler awaits is refused at once, $mode',
  async ({ call, mode }, { database, queue }) => {
    const { came, running, sluice } = await callInHandler(database.url, queue, mode, call)
    expect(came).toMatchObject({
      code: 'IN_HANDLER',
      message: expect.stringMatching(
        /^(?:drain|stop)\(\): expected not to be awaited here, .*It has begun: do not await it/,
      ),
    })
    await running.ended
    await sluice.stop()
  },
)

test.for(EVERY)(
  '$name that its own handler does not await ends it, $mode',
  async ({ call, mode }, { database, queue }) => {
    const { running, sluice } = await callInHandler(database.url, queue, mode, (ends) => void call(ends))
    await running.ended
    await sluice.stop()
  },
)

test.for(MODES)('drain() in its own handler lets the handler succeed, %s', async (mode, { database, queue }) => {
  const { running, sluice } = await callInHandler(database.url, queue, mode, (ends) => void ends.running.drain())
  await running.ended
  expect(await payloadsOf(database, queue)).toEqual([])
  await sluice.stop()
})

test('sluice.stop() is refused to a handler of runOnce(), and ends the Sluice', async ({ database, queue }) => {
  const sluice = createSluice({ connection: database.url, log: false })
  const came = Promise.withResolvers<unknown>()
  const pipeline = sluice.pipeline(queue, HOURS).handle(async () => {
    await setTimeout(1)
    came.resolve(await sluice.stop().catch((error: unknown) => error))
  })
  await put(sluice, queue, [1])
  const settled = await pipeline.runOnce()
  expect(await came.promise).toMatchObject({ code: 'IN_HANDLER' })
  expect(settled.counts.acked).toBe(1)
  await sluice.stop()
  await expect(pipeline.runOnce()).rejects.toMatchObject({ code: 'STOPPED' })
})

test('a handler awaits the drain of another pipeline', async ({ sluice, queue }) => {
  const other = sluice
    .pipeline(`${queue}.other`)
    .handle(() => undefined)
    .start()
  const drained: unknown[] = []
  const pipeline = sluice.pipeline(queue).handle(async () => void drained.push(await other.drain()))
  await put(sluice, queue, [1])
  await pipeline.runOnce()
  expect(drained).toEqual([{ completed: true }])
})

test('what a handler has left behind awaits the drain once the handler is over', async ({ sluice, queue, log }) => {
  const emitter = new EventTarget()
  const began = Promise.withResolvers<RunningPipeline>()
  const drained = Promise.withResolvers<unknown>()
  const pipeline = sluice.pipeline(queue).handle(async () => {
    const running = await began.promise
    void once(emitter, 'later').then(async () => drained.resolve(await running.drain()), drained.reject)
  })
  await put(sluice, queue, [1])
  began.resolve(pipeline.start())
  await log.first('batch.committed')
  emitter.dispatchEvent(new Event('later'))
  expect(await drained.promise).toEqual({ completed: true })
})

test.for([
  { mode: 'transactional', ends: 'that has waited' },
  { mode: 'leased', ends: 'that has answered at once' },
] as const)(
  'what a handler $ends has left behind awaits the drain while a later one of its batch runs, $mode',
  async ({ mode }, { sluice, queue }) => {
    const emitter = new EventTarget()
    const [drains, drained] = [Promise.withResolvers<void>(), Promise.withResolvers<unknown>()]
    const drainLater = async () => {
      await once(emitter, 'later')
      const draining = running.drain()
      drains.resolve()
      return draining
    }
    const handle = ({ payload }: { readonly payload: unknown }) => {
      if (payload === 2) {
        emitter.dispatchEvent(new Event('later'))
        return drains.promise
      }
      drainLater().then(drained.resolve, drained.reject)
      return mode === 'leased' ? undefined : setTimeout(1).then(() => undefined)
    }
    await put(sluice, queue, [1, 2])
    const running =
      mode === 'leased'
        ? sluice
            .pipeline(queue, { mode, ...HOURS })
            .handle(handle)
            .start()
        : sluice.pipeline(queue, HOURS).handle(handle).start()
    expect(await drained.promise).toEqual({ completed: true })
  },
)

test.for(CALLS)(
  '%s is refused to a handler of a runOnce() that its own handler awaits',
  async ([, call], { database, queue }) => {
    const other = startTestSluice(database)
    const inner = `${queue}.inner`
    await put(other, inner, [1])
    const came = Promise.withResolvers<unknown>()
    const outer = await callInHandler(database.url, queue, 'transactional', (ends) =>
      other
        .pipeline(inner, HOURS)
        .handle(async () => {
          await setTimeout(1)
          came.resolve(await call(ends).catch((error: unknown) => error))
        })
        .runOnce(),
    )
    expect(await came.promise).toMatchObject({ code: 'IN_HANDLER' })
    await outer.running.ended
    await outer.sluice.stop()
  },
)

test('deliveries that are not settled may await the stop of their Sluice, which releases them', async ({
  database,
  queue,
}) => {
  const sluice = createSluice({ connection: database.url })
  await put(sluice, queue, [1])
  const stopped = Promise.withResolvers<void>()
  sluice.deliveries(queue, { demand: 1 }).subscribe(() => sluice.stop().then(stopped.resolve, stopped.reject))
  await stopped.promise
  expect(await payloadsOf(database, queue)).toEqual([1])
})

test.for(['start', 'subscribe'] as const)(
  'a pipeline that runs is not started again, by %s()',
  async (again, { sluice, queue }) => {
    const pipeline = sluice.pipeline(queue).handle(() => undefined)
    const running = pipeline.start()
    expect(() => pipeline[again]()).toThrow(
      expect.objectContaining({
        code: 'PIPELINE_STARTED',
        message: expect.stringContaining(`received one of ${queue} that does. For more at a time, set concurrency`),
      }),
    )
    const beside = sluice
      .pipeline(queue)
      .handle(() => undefined)
      .start()
    await running.drain()
    const second = pipeline.start()
    expect(() => pipeline[again]()).toThrow(/^start\(\): expected a pipeline that does not run/)
    second.unsubscribe()
    const third = pipeline.start()
    await Promise.all([beside.stop(), second.ended, third.stop()])
  },
)

test('a pipeline that could not start is started again', async ({ database, queue }) => {
  const url = new URL(database.url)
  url.pathname = '/there_is_no_such_database'
  const elsewhere = createSluice({ connection: url.href, log: false })
  const pipeline = elsewhere.pipeline(queue).handle(() => undefined)
  await expect(pipeline.start().ended).rejects.toMatchObject({ code: 'UNREACHABLE' })
  await expect(pipeline.start().ended).rejects.toMatchObject({ code: 'UNREACHABLE' })
  await elsewhere.stop()
})
