import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Abandoned } from '../../../src/crash/abandoned.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** Batches that are there, and what was asked for. */
function server() {
  const there = new Set<number>()
  const asked: (readonly number[])[] = []
  const state = { there, asked, isDown: false }
  const abandoned = new Abandoned(async (ids) => {
    if (state.isDown) throw new Error('down')
    asked.push(ids)
    return ids.filter((id) => there.delete(id))
  })
  return { abandoned, state }
}

test('frees a batch that comes after its claim was given up', async () => {
  const { abandoned, state } = server()
  abandoned.add([1, 2], false)
  await vi.advanceTimersByTimeAsync(0)
  expect(state.asked).toEqual([[1, 2]])
  state.there.add(2)
  await vi.advanceTimersByTimeAsync(1_000)
  expect(state.there).toEqual(new Set())
  await vi.advanceTimersByTimeAsync(2_000)
  expect(state.asked.at(-1)).toEqual([1])
})

test('looks for two minutes, less and less often', async () => {
  const { abandoned, state } = server()
  abandoned.add([1], false)
  await vi.advanceTimersByTimeAsync(600_000)
  expect(state.asked.length).toBeGreaterThanOrEqual(8)
  expect(state.asked.length).toBeLessThanOrEqual(16)
  expect(vi.getTimerCount()).toBe(0)
})

test('looks once if the server has answered all that was sent, and again while it cannot be reached', async () => {
  const { abandoned, state } = server()
  state.isDown = true
  abandoned.add([1], true)
  await vi.advanceTimersByTimeAsync(5_000)
  state.isDown = false
  abandoned.retry()
  await vi.advanceTimersByTimeAsync(60_000)
  expect(state.asked).toEqual([[1]])
  expect(vi.getTimerCount()).toBe(0)
})

test('looks for the last time when it stops', async () => {
  const { abandoned, state } = server()
  abandoned.add([1], false)
  await vi.advanceTimersByTimeAsync(0)
  state.there.add(1)
  await abandoned.stop()
  expect(state.there).toEqual(new Set())
  expect(vi.getTimerCount()).toBe(0)
})
