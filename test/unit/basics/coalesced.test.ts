import { expect, test } from 'vitest'
import { Coalesced } from '../../../src/basics/promises/coalesced.ts'

const stepsLater = async (steps: number) => {
  for (let step = 0; step < steps; step += 1) await Promise.resolve()
}

test('a call during a run is followed by one more run, and so are two', async () => {
  const coalesced = new Coalesced()
  const first = Promise.withResolvers<void>()
  let runs = 0
  const work = async () => {
    runs += 1
    if (runs === 1) await first.promise
  }
  const calls = [coalesced.run(work)]
  await stepsLater(3)
  calls.push(coalesced.run(work), coalesced.run(work))
  first.resolve()
  await Promise.all(calls)
  expect(runs).toBe(2)
})

test('a call in any step in which a run ends is followed by a run', async () => {
  for (let steps = 0; steps < 12; steps += 1) {
    const coalesced = new Coalesced()
    const first = Promise.withResolvers<void>()
    let runs = 0
    const work = async () => {
      runs += 1
      if (runs === 1) await first.promise
    }
    const begun = coalesced.run(work)
    await stepsLater(3)
    first.resolve()
    await stepsLater(steps)
    await coalesced.run(work)
    await begun
    expect(runs, `${steps} steps`).toBe(2)
  }
})

test('an error rejects the calls of its run, and the next call runs again', async () => {
  const coalesced = new Coalesced()
  await expect(coalesced.run(() => Promise.reject(new Error('refused')))).rejects.toThrow('refused')
  let runs = 0
  await coalesced.run(async () => {
    runs += 1
  })
  expect(runs).toBe(1)
})
