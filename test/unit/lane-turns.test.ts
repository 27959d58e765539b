import { describe, expect, test } from 'vitest'
import { LaneTurns } from '../../src/claim/lane-turns.ts'

describe('kinds of messages', () => {
  test('take turns', () => {
    const turns = new LaneTurns()
    const taken = Array.from({ length: 4 }, () => {
      const [lane] = turns.next()
      turns.took(lane!, true, false)
      return lane
    })
    expect(taken).toEqual(['unkeyed', 'slots', 'unkeyed', 'slots'])
  })

  test.each([
    ['unkeyed', 'slots'],
    ['slots', 'unkeyed'],
  ] as const)(
    'of which %s were not found have every eighth claim, however often the order is asked for',
    (missing, found) => {
      const turns = new LaneTurns()
      turns.learn({ unkeyed: missing !== 'unkeyed', slots: missing === 'slots' ? [] : [1] })
      expect(turns.order()).toEqual([found, missing])
      const first = Array.from({ length: 24 }, () => {
        if (missing === 'slots') turns.took('unkeyed', true, false)
        const [lane] = turns.next()
        // What follows an empty claim, in the same order.
        expect(turns.order()[0]).toBe(lane)
        expect(turns.order()).toEqual(turns.order())
        return lane
      })
      const expected = Array.from({ length: 24 }, (_, at) => ((at + 1) % 8 === 0 ? missing : found))
      expect(first).toEqual(expected)
    },
  )
})
