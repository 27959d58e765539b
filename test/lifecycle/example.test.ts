import { expect } from 'vitest'
import { createEffects, effectsOf } from '../support/effects.ts'
import { WorkerProcess } from '../support/processes/worker-process.ts'
import { untilEmpty } from '../support/rows/rows.ts'
import { put, test } from '../support/sluice.ts'

test('a message whose process is killed takes effect once, in another process', async ({ database, sluice, queue }) => {
  await createEffects(database)
  const ids = await put(sluice, queue, [{ wait: true }])
  const first = await WorkerProcess.start(database, queue)
  await first.handling(ids[0]!)
  await first.kill()

  const second = await WorkerProcess.start(database, queue)
  await second.handling(ids[0]!)
  second.order('go')
  await untilEmpty(database, queue)
  expect(await effectsOf(database, ids)).toEqual([{ id: ids[0], worker: second.name }])
})
