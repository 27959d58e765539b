import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import { AloneLock } from '../../../src/crash/alone-lock.ts'

const NEVER = new AbortController().signal

describe('AloneLock', () => {
  test('lets rounds run side by side', async () => {
    const aloneLock = new AloneLock()
    await aloneLock.enter(false, NEVER)
    await aloneLock.enter(false, NEVER)
  })

  test('P4: lets one run alone when those before it have ended, and the others after it', async () => {
    const { aloneLock, inside, enter } = observed()
    await Promise.all([enter('a', false), enter('b', false)])
    void enter('alone', true)
    void enter('c', false)
    void enter('d', false)
    await settled()
    expect(inside).toEqual(['a', 'b'])
    aloneLock.leave()
    await settled()
    expect(inside).toEqual(['a', 'b'])
    aloneLock.leave()
    await settled()
    expect(inside).toEqual(['a', 'b', 'alone'])
    aloneLock.leave()
    await settled()
    expect(inside).toEqual(['a', 'b', 'alone', 'c', 'd'])
  })

  test('a round that has waited for half a minute to be alone runs beside the others', async () => {
    vi.useFakeTimers()
    try {
      const { inside, enter, aloneLock } = observed()
      await enter('for days', false)
      void enter('alone', true)
      void enter('b', false)
      await vi.advanceTimersByTimeAsync(29_999)
      expect(inside).toEqual(['for days'])
      await vi.advanceTimersByTimeAsync(1)
      expect(inside).toEqual(['for days', 'alone', 'b'])
      for (let left = 3; left > 0; left--) aloneLock.leave()
      await enter('c', true)
      expect(inside).toContain('c')
    } finally {
      vi.useRealTimers()
    }
  })

  test('a round that gives up waiting lets the next one in', async () => {
    const { inside, enter } = observed()
    const stopping = new AbortController()
    await enter('a', false)
    const givenUp = enter('alone', true, stopping.signal)
    void enter('b', false)
    stopping.abort(new Error('stopped'))
    expect(await givenUp).toBe(false)
    await settled()
    expect(inside).toEqual(['a', 'b'])
  })

  test('P4: whatever happens, a round that is alone has no other beside it, and all have their turn', async () => {
    const order = fc.array(fc.record({ alone: fc.boolean(), ticks: fc.integer({ min: 0, max: 5 }) }), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(order, async (batches) => {
        const aloneLock = new AloneLock()
        const inside = new Set<{ readonly alone: boolean }>()
        const run = async (batch: { readonly alone: boolean; readonly ticks: number }) => {
          await aloneLock.enter(batch.alone, NEVER)
          inside.add(batch)
          for (let tick = 0; tick < batch.ticks; tick++) {
            await Promise.resolve()
            if ([...inside].some(({ alone }) => alone)) expect(inside.size).toBe(1)
          }
          inside.delete(batch)
          aloneLock.leave()
        }
        await Promise.all(batches.map(run))
      }),
    )
  })
})

function observed() {
  const aloneLock = new AloneLock()
  const inside: string[] = []
  const enter = async (name: string, alone: boolean, signal = NEVER) => {
    const entered = await aloneLock.enter(alone, signal)
    if (entered) inside.push(name)
    return entered
  }
  return { aloneLock, inside, enter }
}

/** Lets promises that are resolved run on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
