import { expect, onTestFinished, test } from 'vitest'
import { siteOf, stackedAt } from '../../../src/basics/errors/call-site.ts'
import { SluiceError } from '../../../src/errors.ts'

function calledHere() {
  return siteOf()
}

test('a SluiceError has the stack of the call instead of its own', () => {
  const error = new SluiceError('OPTION_INVALID', 'delay: expected a duration')
  expect(stackedAt(error, calledHere())).toBe(error)
  expect(error.stack).toMatch(/^SluiceError: delay: expected a duration\n +at calledHere /)
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
