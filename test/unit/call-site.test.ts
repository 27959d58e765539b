import { expect, onTestFinished, test } from 'vitest'
import { siteOf, stackedAt } from '../../src/basics/call-site.ts'
import { SluiceError } from '../../src/errors.ts'

function calledHere() {
  return siteOf()
}

const FRAME = /^ +at calledHere .*call-site\.test\.ts/m

test('a SluiceError has the stack of the call instead of its own', () => {
  const error = new SluiceError('OPTION_INVALID', 'delay: expected a duration')
  expect(stackedAt(error, calledHere())).toBe(error)
  expect(error.stack).toMatch(/^SluiceError: delay: expected a duration\n +at calledHere /)
})

test('another error has the frames of the call after its own, each once', () => {
  const error = new TypeError('no rows')
  const own = error.stack ?? ''
  const site = calledHere()
  stackedAt(stackedAt(error, site), site)
  expect(error.stack?.startsWith(`${own}\n`)).toBe(true)
  expect(error.stack?.match(new RegExp(FRAME, 'gm'))).toHaveLength(1)
})

test('an error stays as it is where the application makes no text of stacks', () => {
  const { prepareStackTrace } = Error
  onTestFinished(() => void Reflect.set(Error, 'prepareStackTrace', prepareStackTrace))
  Error.prepareStackTrace = (_, frames) => frames
  const error = new SluiceError('OPTION_INVALID', 'delay: expected a duration')
  const { stack } = error
  expect(stackedAt(error, calledHere())).toBe(error)
  expect(error.stack).toBe(stack)
})

test.for([['a string'], [undefined], [Object.freeze(new Error('frozen'))]])('%o is thrown as it is', ([thrown]) => {
  expect(stackedAt(thrown, calledHere())).toBe(thrown)
})
