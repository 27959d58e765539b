import { expect, test } from 'vitest'
import { pauseAfter } from '../../../src/cli/commands/status.ts'

test('what is watched is read for a tenth of the time at most', () => {
  expect(pauseAfter(5, 2_000)).toBe(2_000)
  expect(pauseAfter(1_500, 2_000)).toBe(15_000)
})
