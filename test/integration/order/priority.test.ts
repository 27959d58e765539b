import { describe, expect } from 'vitest'
import { snooze } from '../../../src/message.ts'
import { unlockedPayloads, untilEmpty } from '../../support/rows/rows.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('the first message that a pipeline takes is the one that goes first', () => {
  const priorities = [9, 0, 5, 1]

  for (const batchSize of [1, 10]) {
    test(`also when it has only just subscribed, in batches of ${batchSize}`, async ({ database, sluice, queue }) => {
      for (const priority of priorities) await put(sluice, queue, [priority], { priority })
      const taken: unknown[] = []
      const take = ({ payload }: { payload: unknown }) => void taken.push(payload)
      sluice.pipeline(queue, { batchSize }).handle(take).subscribe()
      await untilEmpty(database, queue)
      expect(taken).toEqual([0, 1, 5, 9])
    })

    test(`and in each runOnce, in batches of ${batchSize}`, async ({ database, sluice, queue }) => {
      for (const priority of priorities) await put(sluice, queue, [priority], { priority })
      const taken: unknown[] = []
      let open = 2
      const pipeline = sluice.pipeline(queue, { batchSize }).handle(({ payload }) => {
        if (open === 0) return snooze({ after: 1 })
        open -= 1
        taken.push(payload)
        return undefined
      })
      await pipeline.runOnce()
      await put(sluice, queue, [0], { priority: 0 })
      await waitFor(
        async () => {
          const left = await database.sql('SELECT FROM sluice.message WHERE queue = $1 AND due_at > now()', [queue])
          return left.length === 0
        },
        { what: 'all to be due' },
      )
      open = 3
      await pipeline.runOnce()
      expect(taken).toEqual([0, 1, 0, 5, 9])
      expect(await unlockedPayloads(database, queue)).toEqual([])
    })
  }

  test('with keys in the queue as well', async ({ sluice, queue }) => {
    await put(sluice, queue, ['keyed'], { orderingKey: 'k' })
    for (const priority of priorities) await put(sluice, queue, [priority], { priority })
    const settled = await sluice
      .pipeline(queue, { batchSize: 1 })
      .handle(() => undefined)
      .runOnce()
    const unkeyed = settled.map(({ message }) => message.payload).filter((payload) => payload !== 'keyed')
    expect(unkeyed).toEqual([0, 1, 5, 9])
  })
})
