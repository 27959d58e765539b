import { describe, expect, test } from 'vitest'
import { Thinner } from '../../../src/otel/thinner.ts'

/** How many of so many calls in one second are taken. */
function takenIn(thinner: Thinner, second: number, calls: number): number {
  let taken = 0
  for (let at = 0; at < calls; at++) if (thinner.takes(second * 1_000 + (at / calls) * 1_000)) taken += 1
  return taken
}

describe('what is measured', () => {
  test('is everything, up to a thousand a second', () => {
    const thinner = new Thinner()
    for (const second of [1, 2, 3]) expect(takenIn(thinner, second, 1_000)).toBe(1_000)
  })

  test('is about a thousand of a hundred thousand, and everything again in a quiet second after the next', () => {
    const thinner = new Thinner()
    takenIn(thinner, 1, 100_000)
    const taken = takenIn(thinner, 2, 100_000)
    expect(taken).toBeGreaterThan(700)
    expect(taken).toBeLessThan(1_300)
    takenIn(thinner, 3, 100)
    expect(takenIn(thinner, 4, 100)).toBe(100)
  })
})
