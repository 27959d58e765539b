import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Isolation } from '../../src/crash/alone.ts'

const NEVER = new AbortController().signal

describe('Isolation', () => {
  test('lets batches run side by side', async () => {
    const isolation = new Isolation()
    await isolation.enter(false, NEVER)
    await isolation.enter(false, NEVER)
  })

  test('P4: lets one run alone when those inside have ended, and others after it', async () => {
    const { isolation, inside, enter } = observed()
    await Promise.all([enter('a', false), enter('b', false)])
    void enter('alone', true)
    void enter('c', false)
    void enter('d', false)
    await settled()
    expect(inside).toEqual(['a', 'b'])
    isolation.leave()
    await settled()
    expect(inside).toEqual(['a', 'b'])
    isolation.leave()
    await settled()
    expect(inside).toEqual(['a', 'b', 'alone'])
    isolation.leave()
    await settled()
    expect(inside).toEqual(['a', 'b', 'alone', 'c', 'd'])
  })

  test('who gives up waiting lets the next one in', async () => {
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

  test('P4: whatever happens, who is alone is alone, and all have their turn', async () => {
    const order = fc.array(fc.record({ alone: fc.boolean(), ticks: fc.integer({ min: 0, max: 5 }) }), { maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(order, async (batches) => {
        const isolation = new Isolation()
        const inside = new Set<{ readonly alone: boolean }>()
        const run = async (batch: { readonly alone: boolean; readonly ticks: number }) => {
          await isolation.enter(batch.alone, NEVER)
          inside.add(batch)
          for (let tick = 0; tick < batch.ticks; tick++) {
            await Promise.resolve()
            if ([...inside].some(({ alone }) => alone)) expect(inside.size).toBe(1)
          }
          inside.delete(batch)
          isolation.leave()
        }
        await Promise.all(batches.map(run))
      }),
    )
  })
})

function observed() {
  const isolation = new Isolation()
  const inside: string[] = []
  const enter = async (name: string, alone: boolean, signal = NEVER) => {
    const entered = await isolation.enter(alone, signal)
    if (entered) inside.push(name)
    return entered
  }
  return { isolation, inside, enter }
}

/** Lets promises that are resolved run on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
