import { expect } from 'vitest'
import { pause } from '../../../src/basics/time/pause.ts'
import { setQueueColumns } from '../../support/rows/queue-settings.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

test('tenants take turns where a queue has fewer permits than runners', async ({ queue, database, sluice }) => {
  await setQueueColumns(database, queue, { concurrency: 1, tenant_concurrency: 1 })
  for (const tenant of ['a', 'b']) await put(sluice, queue, Array(100).fill(tenant), { tenant })
  const order: unknown[] = []
  sluice
    .pipeline(queue, { mode: 'leased', concurrency: 3 })
    .handle(async ({ payload }) => {
      order.push(payload)
      await pause(10)
    })
    .start()
  await waitFor(() => order.length === 200, { what: 'all to be handled' })
  const runs = order.join('').match(/a+|b+/g) ?? []
  expect(Math.max(...runs.map((run) => run.length)), order.join('')).toBeLessThanOrEqual(40)
})
