import { describe, expect, test } from 'vitest'
import { stackOf } from '../../../src/basics/errors/stack-of.ts'

describe('the stack of an error', () => {
  test('is its frames without the message, whatever lines that has', () => {
    const error = Object.assign(new Error('card 4242\n  declined'), {
      stack: 'Error: card 4242\n  declined\n    at charge (/app/pay.ts:12:5)\n    at main (/app/main.ts:3:1)',
    })
    expect(stackOf(error)).toBe('at charge (/app/pay.ts:12:5)\nat main (/app/main.ts:3:1)')
  })

  test('has at most 4,000 characters, and none that the database cannot hold', () => {
    const stack = `Error\n    at a\0b\n${'    at somewhere\n'.repeat(1_000)}`
    expect(stackOf(Object.assign(new Error('long'), { stack }))).toMatch(/^at a\uFFFDb\nat [\s\S]{3990}$/)
  })

  test.for<readonly [string, unknown]>([
    ['a string', 'no'],
    ['nothing', undefined],
    ['an error without frames', Object.assign(new Error('no'), { stack: 'Error: no' })],
    ['an error whose stack is a number', Object.assign(new Error('no'), { stack: 7 })],
    [
      'an error whose stack throws',
      Object.defineProperty(new Error('no'), 'stack', {
        get: () => {
          throw new Error('not this one')
        },
      }),
    ],
  ])('is undefined for %s', ([, thrown]) => {
    expect(stackOf(thrown)).toBeUndefined()
  })
})
