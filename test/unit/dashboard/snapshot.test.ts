import { expect, test } from 'vitest'
import { Snapshot } from '../../../packages/dashboard/src/read/snapshot.ts'

test('a quick reading is shown at once, and to all who ask soon after', async () => {
  let readings = 0
  const snapshot = new Snapshot(async () => ++readings)
  const [one, two] = await Promise.all([snapshot.read(neverReported), snapshot.read(neverReported)])
  expect([one.value, two.value, (await snapshot.read(neverReported)).value]).toEqual([1, 1, 1])
})

test('after a change the next one who asks gets a new reading', async () => {
  let readings = 0
  const snapshot = new Snapshot(async () => ++readings)
  await snapshot.read(neverReported)
  snapshot.expire()
  expect((await snapshot.read(neverReported)).value).toBe(2)
})

test('a change during a reading makes the next one who asks read again', async () => {
  const gates = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  let readings = 0
  const snapshot = new Snapshot(() => gates[readings++]!.promise)
  const first = snapshot.read(neverReported)
  snapshot.expire()
  gates[0]?.resolve('before')
  await first
  gates[1]?.resolve('after')
  expect((await snapshot.read(neverReported)).value).toBe('after')
})

test('nobody waits for a slow reading, and those who ask later get it', async () => {
  const gate = Promise.withResolvers<string>()
  const snapshot = new Snapshot(() => gate.promise)
  expect((await snapshot.read(neverReported)).value).toBeUndefined()
  gate.resolve('counted')
  expect((await snapshot.read(neverReported)).value).toBe('counted')
})

test('nobody waits for a reading that has lasted for long, or in place of one that did', async () => {
  let now = 0
  const gates = [Promise.withResolvers<string>(), Promise.withResolvers<string>()]
  let readings = 0
  const snapshot = new Snapshot(
    () => gates[readings++]!.promise,
    () => now,
  )
  const first = snapshot.read(neverReported)
  now += 400
  const beganMs = performance.now()
  for (let asked = 0; asked < 20; asked += 1) expect((await snapshot.read(neverReported)).value).toBeUndefined()
  gates[0]?.resolve('slow')
  await first
  now += 10_000
  for (let asked = 0; asked < 20; asked += 1) expect((await snapshot.read(neverReported)).value).toBe('slow')
  // Forty waits would be ten seconds.
  expect(performance.now() - beganMs).toBeLessThan(5_000)
  expect(readings).toBe(2)
})

test('a reading that fails is reported, and leaves what was read before with the reason', async () => {
  const reported: unknown[] = []
  const failure = new Error('canceling statement due to statement timeout')
  let readings = 0
  const snapshot = new Snapshot(async () => {
    readings += 1
    if (readings === 2) throw failure
    return readings
  })
  const report = (error: unknown) => reported.push(error)
  expect(await snapshot.read(report)).toMatchObject({ value: 1, failure: undefined })
  snapshot.expire()
  expect(await snapshot.read(report)).toMatchObject({ value: 1, failure: { error: failure } })
  snapshot.expire()
  expect(await snapshot.read(report)).toMatchObject({ value: 3, failure: undefined })
  expect(reported).toEqual([failure])
})

test('readings take a tenth of the time at most, whether they succeed or fail', async () => {
  for (const fails of [false, true]) {
    let now = 0
    let readings = 0
    const load = async () => {
      readings += 1
      now += 5_000
      if (fails) throw new Error('too slow')
    }
    const snapshot = new Snapshot(load, () => now)
    for (; now < 550_000; now += 100) await snapshot.read(() => undefined)
    expect(readings).toBe(10)
  }
})

test('after a lock of a table it is read again five seconds later, however long the lock was waited for', async () => {
  let now = 0
  let readings = 0
  const snapshot = new Snapshot(
    async () => {
      readings += 1
      now += 30_000
      throw Object.assign(new Error('locked'), { code: 'TABLE_LOCKED' })
    },
    () => now,
  )
  await snapshot.read(() => undefined)
  now += 4_000
  await snapshot.read(() => undefined)
  expect(readings).toBe(1)
  now += 1_000
  await snapshot.read(() => undefined)
  expect(readings).toBe(2)
})

test('a failure says since when none has succeeded', async () => {
  let now = 0
  const snapshot = new Snapshot(
    () => Promise.reject(new Error('away')),
    () => now,
  )
  await snapshot.read(() => undefined)
  now += 60_000
  expect((await snapshot.read(() => undefined)).failure).toMatchObject({ sinceMs: 60_000 })
})

function neverReported(error: unknown): void {
  throw error
}
