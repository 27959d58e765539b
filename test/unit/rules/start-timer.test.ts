import { readdirSync, readFileSync } from 'node:fs'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { LONGEST_TIMER_MS, startTimer } from '../../../src/basics/time/start-timer.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test.each([
  ['a time that has passed ends at once', -1, 0],
  ['no time ends at once', 0, 0],
  ['what is not a number ends at once', Number.NaN, 0],
  ['a time ends when it is over', 1_500, 1_500],
  ['the first time that setTimeout does not know ends late', 2 ** 31, LONGEST_TIMER_MS],
  ['no end at all ends late', Number.POSITIVE_INFINITY, LONGEST_TIMER_MS],
])('%s', (_, ms, endsMs) => {
  const work = vi.fn()
  startTimer(work, ms)
  if (endsMs > 0) vi.advanceTimersByTime(endsMs - 1)
  expect(work).not.toHaveBeenCalled()
  vi.advanceTimersByTime(endsMs > 0 ? 1 : 0)
  expect(work).toHaveBeenCalledOnce()
})

test('all timers of the library are started by it', () => {
  const src = new URL('../../../src/', import.meta.url)
  const files = readdirSync(src, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'))
  const direct = files.filter((file) => readFileSync(new URL(file, src), 'utf8').includes('setTimeout('))
  expect(direct).toEqual(['basics/time/start-timer.ts'])
})
