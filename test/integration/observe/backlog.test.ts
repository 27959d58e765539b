import pg from 'pg'
import { describe, expect } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { BacklogMonitor } from '../../../src/services/backlog.ts'
import { readBacklog } from '../../../src/table/worker/backlog.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const test = base.extend('execute', async ({ database }, { onCleanup }) => {
  const client = new pg.Client(database.url)
  await client.connect()
  onCleanup(() => client.end())
  return executeOn(client)
})

describe('the backlog of a queue', () => {
  test('counts no further than asked, and finds the oldest due message with and without keys', async ({
    database,
    execute,
    queue,
    sluice,
  }) => {
    const age = (key: string | null, ago: string) =>
      database.sql(
        `UPDATE sluice.message SET due_at = now() - interval '${ago}' WHERE queue = '${queue}' AND ordering_key ${key === null ? 'IS NULL' : `= '${key}'`}`,
      )
    expect(await readBacklog(execute, queue, 10, true)).toEqual({ messages: 0, oldestMs: null })
    await put(sluice, queue, [1, 2, 3], { priority: 7 })
    await put(sluice, queue, [4], { delay: '1h' })
    await put(sluice, queue, [5, 6], { orderingKey: 'a' })
    expect((await readBacklog(execute, queue, 10, true)).messages).toBe(6)
    expect((await readBacklog(execute, queue, 4, true)).messages).toBe(4)
    await age(null, '10 minutes')
    expect((await readBacklog(execute, queue, 4, true)).oldestMs).toBeGreaterThanOrEqual(600_000)
    await age('a', '20 minutes')
    expect((await readBacklog(execute, queue, 4, true)).oldestMs).toBeGreaterThanOrEqual(1_200_000)
    expect((await readBacklog(execute, queue, 4, false)).oldestMs).toBe(null)
  })

  test('is warned of once in a while, with what is the reason', async ({ execute, queue, sluice }) => {
    const events: SluiceEvent[] = []
    let nowMs = 0
    const monitor = new BacklogMonitor(
      queue,
      { messages: 2, ageMs: 60_000, everyMs: 1_000, againMs: 10_000 },
      {
        control: { execute },
        report: (event) => events.push(event),
        nowMs: () => nowMs,
      },
    )
    await put(sluice, queue, [1, 2])
    expect(await monitor.runOnce()).toBe(false)
    await put(sluice, queue, [3])
    expect(await monitor.runOnce()).toBe(true)
    nowMs = 9_999
    expect(await monitor.runOnce()).toBe(false)
    nowMs = 10_000
    expect(await monitor.runOnce()).toBe(true)
    expect(events).toEqual([
      { kind: 'queue.backlog', queue, moreThan: 2, oldestMs: null },
      { kind: 'queue.backlog', queue, moreThan: 2, oldestMs: null },
    ])
  })

  test('is looked at by a pipeline that is asked to, while it runs', async ({ database, queue }) => {
    const lines: string[] = []
    const log = { info: () => undefined, warn: (line: string) => lines.push(line), error: () => undefined }
    const sluice = startTestSluice(database, { log })
    await put(sluice, queue, [1, 2, 3], { delay: '1h' })
    sluice
      .pipeline(queue, { backlog: { messages: 2, every: '1s' } })
      .handle(() => undefined)
      .start()
    await waitFor(() => lines.length > 0, { what: 'the warning' })
    expect(lines).toEqual([`sluice: ${queue}: backlog: more than 2 messages`])
  })

  test('is watched for something, within bounds', ({ sluice, queue }) => {
    const refused = (backlog: object) => () => sluice.pipeline(queue, { backlog })
    expect(refused({})).toThrow(/backlog: expected messages or age/)
    expect(refused({ messages: 0 })).toThrow(/backlog.messages: expected an integer from 1/)
    expect(refused({ age: '1ms' })).toThrow(/backlog.age: expected a duration/)
    expect(refused({ size: 4 })).toThrow(/expected only the options messages, age, every, again/)
  })
})
