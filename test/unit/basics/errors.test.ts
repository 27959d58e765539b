import { describe, expect, test } from 'vitest'
import { describe as describeValue, errorText, expected, isSluiceError, SluiceError } from '../../../src/errors.ts'

describe('SluiceError', () => {
  test('carries its code and its cause', () => {
    const cause = new Error('socket closed')
    const error = new SluiceError('UNREACHABLE', 'Cannot connect', { cause })
    expect(error).toMatchObject({ name: 'SluiceError', code: 'UNREACHABLE', message: 'Cannot connect', cause })
  })

  test('is told from other errors, and by its code', () => {
    const error = new SluiceError('STOPPED', 'Stopped')
    expect(isSluiceError(error)).toBe(true)
    expect(isSluiceError(error, 'STOPPED')).toBe(true)
    expect(isSluiceError(error, 'UNREACHABLE')).toBe(false)
    expect(isSluiceError(new Error('Stopped'))).toBe(false)
    expect(isSluiceError(undefined)).toBe(false)
  })
})

describe('expected', () => {
  test('says what was expected, what was received and what to do', () => {
    const error = expected('OPTION_INVALID', 'priority', 'an integer from 0 to 9', 12, 'Leave it out for 5')
    expect(error.code).toBe('OPTION_INVALID')
    expect(error.message).toBe('priority: expected an integer from 0 to 9, received 12. Leave it out for 5')
  })

  test('needs no remedy', () => {
    expect(expected('OPTION_INVALID', 'queue', 'a name', null).message).toBe('queue: expected a name, received null')
  })
})

describe('describe', () => {
  class Pool {}
  test.each([
    ['mail', '"mail"'],
    ['x'.repeat(81), `"${'x'.repeat(80)}…"`],
    [7, '7'],
    [7n, '7n'],
    [undefined, 'undefined'],
    [null, 'null'],
    [true, 'true'],
    [Symbol('s'), 'Symbol(s)'],
    [[1, 2], 'an array of 2'],
    [{}, 'an object'],
    [Object.create(null), 'an object'],
    [new Pool(), 'a Pool'],
    [Pool, 'a function (Pool)'],
    [() => undefined, 'a function'],
  ])('describes %o', (value, text) => {
    expect(describeValue(value)).toBe(text)
  })
})

describe('errorText', () => {
  test('gives name and message of an error and of its causes, without stack', () => {
    const error = new Error('send failed', { cause: new TypeError('no address') })
    expect(errorText(error)).toBe('Error: send failed — caused by TypeError: no address')
  })

  test('takes anything that can be thrown', () => {
    expect(errorText('plain text')).toBe('plain text')
    expect(errorText({ status: 500 })).toBe('an object')
    expect(errorText(new Error('odd', { cause: 404 }))).toBe('Error: odd — caused by 404')
  })

  test('ends with causes that go in a circle', () => {
    const error = new Error('round')
    error.cause = error
    expect(errorText(error).split('round')).toHaveLength(6)
  })

  test('can always be stored: at most 4,000 characters, no NUL, no lone surrogate', () => {
    const text = errorText(new Error(`\0\uD800${'x'.repeat(5000)}`))
    expect(text).toHaveLength(4000)
    expect(text).not.toContain('\0')
    expect(text.isWellFormed()).toBe(true)
  })
})
