import { describe, expect, test } from 'vitest'
import { Turns } from '../../../src/claim/turns.ts'

describe('kinds of messages', () => {
  test('take turns', () => {
    const turns = new Turns()
    const taken = Array.from({ length: 4 }, () => {
      const [kind] = turns.next()
      turns.took(kind!, true, false)
      return kind
    })
    expect(taken).toEqual(['unkeyed', 'keyed', 'unkeyed', 'keyed'])
  })

  test.each([
    ['unkeyed', 'keyed'],
    ['keyed', 'unkeyed'],
  ] as const)(
    'of which %s were not found have every eighth claim, however often the order is asked for',
    (missing, found) => {
      const turns = new Turns()
      turns.learn({ unkeyed: missing !== 'unkeyed', slots: missing === 'keyed' ? [] : [1] })
      expect(turns.order()).toEqual([found, missing])
      const first = Array.from({ length: 24 }, () => {
        if (missing === 'keyed') turns.took('unkeyed', true, false)
        const [kind] = turns.next()
        // What follows an empty claim, in the same order.
        expect(turns.order()[0]).toBe(kind)
        expect(turns.order()).toEqual(turns.order())
        return kind
      })
      const expected = Array.from({ length: 24 }, (_, at) => ((at + 1) % 8 === 0 ? missing : found))
      expect(first).toEqual(expected)
    },
  )
})
