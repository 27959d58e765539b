import { describe, expect, test } from 'vitest'
import { Backoff } from '../../../src/basics/time/backoff.ts'
import { pause } from '../../../src/basics/time/pause.ts'

describe('Backoff', () => {
  test('doubles up to the most', () => {
    const backoff = new Backoff(50, 5_000, () => 1)
    expect(Array.from({ length: 9 }, () => backoff.next())).toEqual([50, 100, 200, 400, 800, 1600, 3200, 5000, 5000])
  })

  test('draws whole milliseconds from the upper half of its step', () => {
    expect(new Backoff(50, 5_000, () => 0).next()).toBe(25)
    expect(new Backoff(50, 5_000, () => 0.5).next()).toBe(38)
  })

  test('starts anew after a success', () => {
    const backoff = new Backoff(50, 5_000, () => 1)
    backoff.next()
    backoff.next()
    backoff.reset()
    expect(backoff.next()).toBe(50)
  })

  test('stays finite after very many failures', () => {
    const backoff = new Backoff(1, 1_000, () => 1)
    for (let failure = 0; failure < 2_000; failure++) backoff.next()
    expect(backoff.next()).toBe(1_000)
  })
})

describe('pause', () => {
  test('does not wait for a signal that has aborted', async () => {
    await expect(pause(60_000, AbortSignal.abort())).resolves.toBeUndefined()
  })

  test('ends early and without an error when the signal aborts', async () => {
    const stopping = new AbortController()
    const paused = pause(60_000, stopping.signal)
    stopping.abort()
    await expect(paused).resolves.toBeUndefined()
  })
})
