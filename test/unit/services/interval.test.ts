import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Interval } from '../../../src/services/service.ts'

test('passes follow one another and never overlap, and one that fails is followed by the next', async () => {
  const enough = Promise.withResolvers<void>()
  let running = 0
  let most = 0
  let passes = 0
  const interval = new Interval(1, async () => {
    running += 1
    most = Math.max(most, running)
    await nextTurn()
    running -= 1
    passes += 1
    if (passes === 3) enough.resolve()
    if (passes === 1) throw new Error('a pass that fails')
  })
  interval.start()
  await enough.promise
  await interval.stop()
  expect({ most, running }).toEqual({ most: 1, running: 0 })
})

test('stop waits for the pass that runs', async () => {
  const [begun, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  let ended = false
  const interval = new Interval(1, async () => {
    begun.resolve()
    await goOn.promise
    ended = true
  })
  interval.start()
  await begun.promise
  const stopped = interval.stop()
  goOn.resolve()
  await stopped
  expect(ended).toBe(true)
})
