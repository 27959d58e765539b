import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'
import { createSluice } from '../../src/index.ts'
import { runDue } from '../../src/testing.ts'
import { EventLog } from '../support/event-log.ts'
import { put, test } from '../support/sluice.ts'
import { waitFor } from '../support/wait.ts'

test('a process that has only called runOnce() ends by itself, and is off the books', async ({
  database,
  sluice,
  queue,
}) => {
  await put(sluice, queue, [1, 2])
  const program = `
    import { createSluice } from ${JSON.stringify(join(import.meta.dirname, '../../src/index.ts'))}
    const sluice = createSluice({ connection: ${JSON.stringify(database.url)}, name: 'without stop' })
    const settled = await sluice.pipeline(${JSON.stringify(queue)}).handle(() => undefined).runOnce()
    console.log(settled.counts.acked)`
  const child = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', program])
  expect(child.stdout.trim()).toBe('2')
  expect(await database.sql(`SELECT FROM sluice.worker WHERE name = 'without stop'`)).toEqual([])
})

test('runOnce() can be called again after its connections have gone, and beside a pipeline that stays', async ({
  database,
  queue,
}) => {
  const sluice = createSluice({ connection: database.url })
  const log = new EventLog(sluice.events)
  const pipeline = sluice.pipeline(queue).handle(() => undefined)
  await pipeline.runOnce()
  await log.first('worker.stopped')
  await put(sluice, queue, [1])
  expect(await pipeline.runOnce()).toMatchObject([{ outcome: { kind: 'ack' } }])
  const subscription = pipeline.subscribe()
  await log.first('pipeline.started')
  await waitFor(() => log.of('worker.stopped').length + 1 === log.of('worker.started').length, {
    what: 'one worker to be there',
  })
  await pipeline.runOnce()
  await subscription.drain()
  await sluice.stop()
  expect(log.of('worker.stopped')).toHaveLength(log.of('worker.started').length)
  expect(await database.sql('SELECT FROM sluice.worker')).toEqual([])
})

test('runOnce() lists the first 10,000 messages, and counts all', async ({ sluice, queue }) => {
  await put(sluice, queue, Array.from({ length: 10_500 }).fill(0))
  const pipeline = sluice.pipeline(queue, { batchSize: 1_000 }).handleBatch(() => undefined)
  const settled = await pipeline.runOnce()
  expect(settled).toHaveLength(10_000)
  expect(settled.counts).toEqual({ acked: 10_500, retried: 0, snoozed: 0, dead: 0 })
  expect(Object.keys(await pipeline.runOnce())).toEqual([])
})

test('runOnce() counts each end, and runDue() the ends of all', async ({ sluice, queue }) => {
  await put(sluice, queue, ['ack', 'retry', 'snooze', 'deadLetter', 'ack'])
  const pipeline = sluice.pipeline(queue, { retry: { kind: 'fixed', delay: '1h' } }).handle(({ payload }) => {
    if (payload === 'retry') throw new Error('again')
    if (payload === 'snooze') return { kind: 'snooze', afterMs: 3_600_000 }
    return payload === 'deadLetter' ? { kind: 'deadLetter', reason: 'never' } : { kind: 'ack' }
  })
  const settled = await runDue(pipeline)
  expect(settled.counts).toEqual({ acked: 2, retried: 1, snoozed: 1, dead: 1 })
  expect(settled).toHaveLength(5)
})
