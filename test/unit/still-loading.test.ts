import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { orStillLoading } from '../../src/cli/work/still-loading.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => {
  vi.useRealTimers()
  vi.restoreAllMocks()
})

const stderr = () => vi.spyOn(process.stderr, 'write').mockReturnValue(true)

test('a module that never loads is named, with what it may await, and fails after a minute', async () => {
  const written = stderr()
  const loading = expect(orStillLoading('./worker.ts', new Promise(() => undefined))).rejects.toThrow(
    /^\.\/worker\.ts has not loaded within 1m\. An await at its top .* run it with `node \.\/worker\.ts`/,
  )
  await vi.advanceTimersByTimeAsync(4_999)
  expect(written).not.toHaveBeenCalled()
  await vi.advanceTimersByTimeAsync(1)
  expect(written).toHaveBeenCalledExactlyOnceWith(expect.stringMatching(/^\.\/worker\.ts is still loading\. /))
  await vi.advanceTimersByTimeAsync(55_000)
  await loading
})

test('a module that loads late is only named', async () => {
  const written = stderr()
  const module = Promise.withResolvers<string>()
  const loaded = orStillLoading('./worker.ts', module.promise)
  await vi.advanceTimersByTimeAsync(30_000)
  module.resolve('loaded')
  expect(await loaded).toBe('loaded')
  await vi.advanceTimersByTimeAsync(60_000)
  expect(written).toHaveBeenCalledOnce()
  expect(vi.getTimerCount()).toBe(0)
})
