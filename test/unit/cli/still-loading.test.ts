import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { orStillLoading } from '../../../src/cli/work/still-loading.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

const stderr = () => vi.spyOn(process.stderr, 'write').mockReturnValue(true)

test('a module that does not load is named once, with what it may await and how to run it', async () => {
  const written = stderr()
  const module = Promise.withResolvers<string>()
  const loaded = orStillLoading('./worker.ts', module.promise)
  await vi.advanceTimersByTimeAsync(4_999)
  expect(written).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(written).toHaveBeenCalledExactlyOnceWith(
    expect.stringMatching(
      /^\.\/worker\.ts is still loading\. An await at its top .* run it with `node \.\/worker\.ts`/,
    ),
  )
  module.resolve('loaded')
  expect(await loaded).toBe('loaded')
})

test('a module that loads soon is not named', async () => {
  const written = stderr()
  expect(await orStillLoading('./worker.ts', Promise.resolve('loaded'))).toBe('loaded')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(written).not.toHaveBeenCalled()
})
