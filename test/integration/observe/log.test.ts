import { beforeEach, describe, expect, onTestFinished, vi } from 'vitest'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { EventLog } from '../../support/event-log.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const fail = async () => {
  throw new Error('The mail server is busy')
}

const LINE =
  /^sluice: q\.\d+: message \d+ \(welcome\), attempt 1, failed on \S+, again in .*: Error: The mail server is busy \(at \S*fail .*\(.*log\.test\.ts:\d+:\d+\), at .*\)$/

test('a pipeline that starts says what it works on, as it was told last', async ({ database, queue }) => {
  const started = Promise.withResolvers<string>()
  const sluice = startTestSluice(database, { log: { info: started.resolve, warn: vi.fn(), error: vi.fn() } })
  const running = sluice.pipeline(queue, { concurrency: 4, batchSize: 1 }).handle(fail).start()
  running.setConcurrency(7)
  expect(await started.promise).toBe(`sluice: ${queue}: started in transactional mode, concurrency 7, batch size 1`)
})

test('a relay and an inbox that start say to what and from what', async ({ database, queue }) => {
  const lines: string[] = []
  const sluice = startTestSluice(database, { log: { info: (line) => lines.push(line), warn: vi.fn(), error: vi.fn() } })
  sluice.relay(queue, { to: new MemoryDestination() }).start()
  sluice.inbox(queue, { from: new MemoryReceiver() }).start()
  await waitFor(() => lines.length === 2, { what: 'two lines' })
  expect(lines.toSorted()).toEqual([
    `sluice: ${queue}: inbox from memory started, batch size 100`,
    `sluice: ${queue}: relay to memory started in transactional mode, concurrency 2, batch size 100`,
  ])
})

test('a message that a relay could not publish is a warning, which names the destination and the reason', async ({
  database,
  queue,
}) => {
  const warn = vi.fn<(line: string) => void>()
  const sluice = startTestSluice(database, { log: { info: vi.fn(), warn, error: vi.fn() } })
  const log = new EventLog(sluice.events)
  await put(sluice, queue, [1], { type: 'paid' })
  const to = new MemoryDestination()
  to.answer = () => ({ kind: 'failed', error: 'no stream has the subject' })
  await sluice.relay(queue, { to, retry: { kind: 'fixed', delay: '1h' } }).runOnce()
  expect(log.of('message.failed')).toMatchObject([{ destination: 'memory', error: 'no stream has the subject' }])
  expect(warn.mock.calls).toEqual([
    [
      expect.stringMatching(
        /^sluice: q\.\d+: message \d+ \(paid\) to memory, attempt 1, failed on \S+, again in .*: no stream has the subject$/,
      ),
    ],
  ])
})

describe('a handler that fails', () => {
  let written: string[]
  beforeEach(() => {
    written = []
    const error = vi.spyOn(console, 'error').mockImplementation((line: unknown) => void written.push(String(line)))
    onTestFinished(() => error.mockRestore())
  })

  test('says so on stderr without any configuration', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { log: undefined })
    await put(sluice, queue, ['a'], { type: 'welcome' })
    await sluice.pipeline(queue).handle(fail).runOnce()
    expect(written).toEqual([expect.stringMatching(LINE)])
  })

  test('says so in the events alone while somebody subscribes to them', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { log: undefined })
    const log = new EventLog(sluice.events)
    await put(sluice, queue, ['a'], { type: 'welcome' })
    await sluice.pipeline(queue).handle(fail).runOnce()
    expect(log.of('message.failed')).toHaveLength(1)
    expect(written).toEqual([])
  })

  test('says so to the log that was given, whoever subscribes', async ({ database, queue }) => {
    const warn = vi.fn<(line: string) => void>()
    const sluice = startTestSluice(database, { log: { info: vi.fn(), warn, error: vi.fn() } })
    new EventLog(sluice.events)
    await put(sluice, queue, ['a'], { type: 'welcome' })
    await sluice.pipeline(queue).handle(fail).runOnce()
    expect(warn.mock.calls).toEqual([[expect.stringMatching(LINE)]])
    expect(written).toEqual([])
  })

  test('has its error also in the JSON of an event', async ({ database, queue }) => {
    const sluice = startTestSluice(database)
    const log = new EventLog(sluice.events)
    await put(sluice, queue, ['a'])
    const retry = () => {
      throw new RangeError('No policy')
    }
    await sluice.pipeline(queue, { retry }).handle(fail).runOnce()
    const [event] = log.of('retryPolicy.failed')
    const error = { name: 'RangeError', message: 'No policy' }
    expect(JSON.parse(JSON.stringify(event))).toEqual({ kind: 'retryPolicy.failed', queue, id: event?.id, error })
    expect(event?.error).toEqual(new RangeError('No policy'))
  })

  test('is silent where that was asked for', async ({ database, queue }) => {
    const sluice = startTestSluice(database, { log: false })
    await put(sluice, queue, ['a'], { type: 'welcome' })
    const [settled] = await sluice.pipeline(queue).handle(fail).runOnce()
    expect(settled?.outcome.kind).toBe('retryLater')
    expect(written).toEqual([])
  })

  test.for([true, 'console', {}, { info: () => undefined }])('has no log of %o', (log, { database }) => {
    // @ts-expect-error No log.
    expect(() => startTestSluice(database, { log })).toThrow('log: expected an object with the methods')
  })
})
