import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { pause } from '../../../src/basics/time/pause.ts'
import { ClaimLine } from '../../../src/pull/claim-line.ts'
import { Sleepers } from '../../../src/wake-up/sleepers.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'

const POLL_MS = 1_000

describe('ClaimLine', () => {
  let sleepers: Sleepers
  let onEmpty: ReturnType<typeof vi.fn<() => void>>
  let line: ClaimLine
  let takes: number

  beforeEach(() => {
    vi.useFakeTimers()
    sleepers = new Sleepers({
      control: { execute: new PlayedServer().execute, onDown: () => undefined },
      workerId: () => 7,
      pollIntervalMs: POLL_MS,
      listening: () => false,
      registered: false,
      random: () => 0,
    })
    sleepers.start()
    onEmpty = vi.fn()
    takes = 0
    line = new ClaimLine('q', sleepers, onEmpty)
  })

  afterEach(async () => {
    await sleepers.stop()
    vi.useRealTimers()
  })

  /** A claim that takes so long, and finds nothing. */
  const taking = (ms: number) => async () => {
    takes += 1
    await pause(ms)
    return undefined
  }

  test('claims with each poll while that costs next to nothing', async () => {
    void line.wait(taking(1), new AbortController().signal)
    await vi.advanceTimersByTimeAsync(10 * POLL_MS)
    expect(takes).toBe(11)
  })

  test('lets a claim that reads a backlog have a twentieth of the time', async () => {
    void line.wait(taking(200), new AbortController().signal)
    await vi.advanceTimersByTimeAsync(42_000)
    expect(takes * 200).toBeLessThanOrEqual(42_000 / 20 + 200)
    expect(takes).toBeGreaterThan(5)
  })

  test('claims at once when it is notified, whatever the last claim cost', async () => {
    void line.wait(taking(200), new AbortController().signal)
    await vi.advanceTimersByTimeAsync(500)
    sleepers.notified('q')
    await vi.advanceTimersByTimeAsync(0)
    expect(takes).toBe(2)
  })

  test('says when the last one has left', async () => {
    const [first, second] = [new AbortController(), new AbortController()]
    const waits = [line.wait(taking(1), first.signal), line.wait(taking(1), second.signal)]
    await vi.advanceTimersByTimeAsync(10)
    first.abort()
    await vi.advanceTimersByTimeAsync(10)
    expect(onEmpty).not.toHaveBeenCalled()
    second.abort()
    await Promise.all([...waits, vi.advanceTimersByTimeAsync(10)])
    expect(onEmpty).toHaveBeenCalledOnce()
  })
})
