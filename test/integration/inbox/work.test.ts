import { expect } from 'vitest'
import { inboxesOf, pipelinesOf } from '../../../src/cli/work/pipelines.ts'
import { defineWorker } from '../../../src/define-worker.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { MemoryReceiver } from '../../../src/testing/memory-receiver.ts'
import { test } from '../../support/sluice.ts'

const NONE = { mode: undefined, concurrency: undefined, batchSize: undefined }

test('a worker has an inbox for a queue beside a relay of it, and runs those of the queues that are named', async ({
  sluice,
  queue,
}) => {
  const [from, to] = [new MemoryReceiver(), new MemoryDestination()]
  from.deliver({ id: '1', payload: 1 })
  const { queues } = defineWorker({
    [queue]: { mode: 'relay', to, inbox: { from, source: 'shop' } },
    [`${queue}.kept`]: { inbox: { from: new MemoryReceiver() } },
    [`${queue}.mail`]: async () => undefined,
  })
  const all = inboxesOf(sluice, queues, [])
  expect(all.map(({ queue: name, system }) => `${name} ${system}`)).toEqual([`${queue} memory`, `${queue}.kept memory`])
  expect(inboxesOf(sluice, queues, [`${queue}.mail`])).toEqual([])
  const pipelines = pipelinesOf(sluice, queues, [], { ...NONE, batchSize: 1 })
  expect(pipelines.map(({ queue: name, mode }) => `${name} ${mode}`)).toEqual([
    `${queue} relay`,
    `${queue}.mail transactional`,
  ])
  await all[0]?.inbox.runOnce({ wait: '50ms' })
  await pipelines[0]?.pipeline.runOnce()
  expect(to.stored.map(({ message }) => message.payload)).toEqual([1])
})

test('a group has no inbox, an inbox has options, and other keys beside it want a handler', ({ sluice, queue }) => {
  const inbox = { from: new MemoryReceiver() }
  const ofGroup = { 'orders:all': { mode: 'group', inbox, handle: async () => undefined } }
  expect(() => defineWorker(ofGroup as never)).toThrow('expected no inbox, because a group reads a stream')
  expect(() => defineWorker({ [queue]: { inbox, handler: () => undefined } } as never)).toThrow(
    'expected handle or handleBatch, received "handler"',
  )
  expect(() => defineWorker({ [queue]: { inbox, concurrency: 2 } } as never)).toThrow(
    'expected a handler, or an object',
  )
  const { queues } = defineWorker({ [queue]: { inbox: {} } } as never)
  expect(() => inboxesOf(sluice, queues, [])).toThrow(`inbox("${queue}").from: expected a receiver`)
})
