import { expect } from 'vitest'
import { pipelinesOf } from '../../../src/cli/work/pipelines.ts'
import { defineWorker } from '../../../src/define-worker.ts'
import { MemoryDestination } from '../../../src/testing/memory-destination.ts'
import { put } from '../../support/sluice.ts'
import { append, test } from '../../support/streams.ts'

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

test('a worker publishes the events of a group that has a destination, beside one that has a handler', async ({
  database,
  sluice,
  stream,
}) => {
  const to = new MemoryDestination()
  const handled: unknown[] = []
  await sluice.groups.set(stream, 'second', { from: 'start' })
  const { queues } = defineWorker({
    [`${stream}:all`]: { mode: 'group', to },
    [`${stream}:second`]: { mode: 'group', handle: async ({ position }) => void handled.push(position) },
  })
  const positions = await append(database, stream, [
    [1, 'a'],
    [2, 'a'],
  ])
  const pipelines = pipelinesOf(sluice, queues, [], { ...NONE, batchSize: 1 })
  for (const { pipeline } of pipelines) await pipeline.runOnce()
  expect(pipelines.map(({ queue, mode }) => `${queue} ${mode}`)).toEqual([
    `${stream}:all group`,
    `${stream}:second group`,
  ])
  expect(to.stored.map(({ message }) => message.position)).toEqual(positions)
  expect(handled).toEqual(positions)
  expect(() => defineWorker({ orders: { mode: 'group', to } } as never)).toThrow('expected a name <stream>:<group>')
})

test('a worker has no handler for a queue with the mode relay, and no other mode', ({ sluice, queue }) => {
  const to = new MemoryDestination()
  const both = { [queue]: { mode: 'relay', to, handle: async () => undefined } }
  const refused = 'expected no handler, because its messages leave the database, received "handle"'
  expect(() => defineWorker(both as never)).toThrow(refused)
  const { queues } = defineWorker({ [queue]: { mode: 'relay', to } })
  expect(() => pipelinesOf(sluice, queues, [], { ...NONE, mode: 'leased' })).toThrow('--mode: expected relay')
})
