import { expect, test } from 'vitest'
import { Snapshot } from '../../packages/dashboard/src/read/snapshot.ts'

test('a quick reading is shown at once, and to all who ask soon after', async () => {
  let readings = 0
  const snapshot = new Snapshot(async () => ++readings)
  const [one, two] = await Promise.all([snapshot.read(), snapshot.read()])
  expect([one.value, two.value, (await snapshot.read()).value]).toEqual([1, 1, 1])
})

test('after a change the next one who asks gets a new reading', async () => {
  let readings = 0
  const snapshot = new Snapshot(async () => ++readings)
  await snapshot.read()
  snapshot.expire()
  expect((await snapshot.read()).value).toBe(2)
})

test('a change during a reading makes the next one who asks read again', async () => {
  const gates = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  let readings = 0
  const snapshot = new Snapshot(() => gates[readings++]!.promise)
  const first = snapshot.read()
  snapshot.expire()
  gates[0]?.resolve('before')
  await first
  gates[1]?.resolve('after')
  expect((await snapshot.read()).value).toBe('after')
})

test('nobody waits for a slow reading, and those who ask later get it', async () => {
  const gate = Promise.withResolvers<string>()
  const snapshot = new Snapshot(() => gate.promise)
  expect((await snapshot.read()).value).toBeUndefined()
  gate.resolve('counted')
  expect((await snapshot.read()).value).toBe('counted')
})

test('a reading that fails is an error for those who wait, and is tried again', async () => {
  let readings = 0
  const snapshot = new Snapshot(async () => {
    readings += 1
    if (readings === 1) throw new Error('no connection')
    return 'counted'
  })
  await expect(snapshot.read()).rejects.toThrow('no connection')
  expect((await snapshot.read()).value).toBe('counted')
})
