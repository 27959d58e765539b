import { expect } from 'vitest'
import { pipelinesOf } from '../../src/cli/work/pipelines.ts'
import { defineWorker } from '../../src/define-worker.ts'
import { MemoryDestination } from '../../src/testing/memory-destination.ts'
import { put, test } from '../support/sluice.ts'

const NONE = { mode: undefined, concurrency: undefined, batchSize: undefined }

test('a worker publishes a queue with the mode relay, beside queues with handlers', async ({ sluice, queue }) => {
  const to = new MemoryDestination()
  const handled: unknown[] = []
  const { queues } = defineWorker({
    [queue]: { mode: 'relay', to, batchSize: 2 },
    [`${queue}.mail`]: async ({ payload }) => void handled.push(payload),
  })
  await put(sluice, queue, [1, 2, 3])
  await put(sluice, `${queue}.mail`, ['a'])
  const pipelines = pipelinesOf(sluice, queues, [], { ...NONE, concurrency: 1 })
  for (const { pipeline } of pipelines) await pipeline.runOnce()
  expect(pipelines.map(({ mode }) => mode)).toEqual(['relay', 'transactional'])
  expect(to.stored.map(({ message }) => message.payload)).toEqual([1, 2, 3])
  expect(handled).toEqual(['a'])
})

test('a worker has no handler for a queue with the mode relay, and no other mode', ({ sluice, queue }) => {
  const to = new MemoryDestination()
  const both = { [queue]: { mode: 'relay', to, handle: async () => undefined } }
  expect(() => defineWorker(both as never)).toThrow('expected no handler with the mode relay, received "handle"')
  const { queues } = defineWorker({ [queue]: { mode: 'relay', to } })
  expect(() => pipelinesOf(sluice, queues, [], { ...NONE, mode: 'leased' })).toThrow('--mode: expected relay')
})
