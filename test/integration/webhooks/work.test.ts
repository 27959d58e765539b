import { expect } from 'vitest'
import { pipelinesOf } from '../../../src/cli/work/pipelines.ts'
import { defineWorker } from '../../../src/define-worker.ts'
import { test } from '../../support/webhooks.ts'

const NONE = { mode: undefined, concurrency: undefined, batchSize: undefined }

test('a worker sends the webhooks of a queue with that mode', async ({ sluice, queue, receiver }) => {
  const { queues } = defineWorker({ [queue]: { mode: 'webhooks', ...receiver.reach } })
  await sluice.endpoints.set(queue, 'e', { url: receiver.url })
  await sluice.sendWebhook(sluice.ownTransaction, queue, { type: 'a', payload: 1 })
  const [work] = pipelinesOf(sluice, queues, [], { ...NONE, concurrency: 2 })
  await work?.pipeline.runOnce()
  expect(work).toMatchObject({ mode: 'webhooks', runs: 1 })
  expect(receiver.received).toHaveLength(1)
})

test('a worker has no handler for webhooks, and no other mode', ({ sluice, queue }) => {
  const both = { [queue]: { mode: 'webhooks', handle: async () => undefined } }
  expect(() => defineWorker(both as never)).toThrow(
    'expected no handler, because its messages leave the database, received "handle"',
  )
  const { queues } = defineWorker({ [queue]: { mode: 'webhooks' } })
  expect(() => pipelinesOf(sluice, queues, [], { ...NONE, mode: 'transactional' })).toThrow('--mode: expected webhooks')
})
