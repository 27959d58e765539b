import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { WaitingFlag } from '../../../src/wake-up/waiting-flag.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'
import { waitFor } from '../../support/wait.ts'

describe('WaitingFlag', () => {
  let server: PlayedServer
  let looks: number
  let flag: WaitingFlag

  beforeEach(() => {
    server = new PlayedServer()
    looks = 0
    const { execute } = server
    flag = new WaitingFlag({ queue: 'q', execute, workerId: () => 7, onCheckAgain: () => looks++ })
  })

  async function answer(state: string): Promise<void> {
    const asked = await server.next()
    expect(asked).toMatchObject({ statement: RAISE, params: ['q'] })
    asked.answer([{ state }])
    await settled()
  }

  test('looks once more when it is ours, and is raised only once', async () => {
    flag.raise()
    flag.raise()
    await answer('ours')
    flag.raise()
    expect({ looks, asked: server.statements }).toEqual({ looks: 1, asked: [RAISE] })
  })

  test('tells the others when it is given up', async () => {
    flag.raise()
    await answer('ours')
    flag.lower()
    expect(await server.next()).toMatchObject({ statement: LOWER, params: ['q', '!7!q'] })
  })

  test('is given up at once if nobody waits any more when it comes', async () => {
    flag.raise()
    flag.lower()
    await answer('ours')
    expect(await server.next()).toMatchObject({ statement: LOWER })
    expect(looks).toBe(0)
  })

  test('is raised again if somebody waits again while it is given up', async () => {
    flag.raise()
    await answer('ours')
    flag.lower()
    flag.raise()
    const lowering = await server.next()
    lowering.answer([])
    await answer('ours')
    expect(looks).toBe(2)
  })

  test('P5: looks again, later and later, while enqueues are in flight', async () => {
    flag.raise()
    await answer('enqueueing')
    expect(looks).toBe(0)
    await waitFor(() => looks === 1, { what: 'the first look' })
    flag.raise()
    await answer('enqueueing')
    flag.raise()
    expect(server.statements).toHaveLength(2)
    await waitFor(() => looks === 2, { what: 'the second look' })
  })

  test('does not look again for nobody', async () => {
    flag.raise()
    flag.lower()
    await answer('enqueueing')
    flag.raise()
    expect(server.statements).toHaveLength(2)
  })

  test('relies on another process until that one moves', async () => {
    flag.raise()
    await answer('others')
    flag.raise()
    expect({ looks, reliesOnOthers: flag.reliesOnOthers, asked: server.statements.length }).toEqual({
      looks: 0,
      reliesOnOthers: true,
      asked: 1,
    })
    flag.othersMoved()
    await answer('ours')
    expect(looks).toBe(1)
  })

  test('P5: tries again if the other process moved before its own try was answered', async () => {
    flag.raise()
    flag.othersMoved()
    await answer('others')
    await answer('ours')
    expect(looks).toBe(1)
  })

  test('forgets what it knew of another process when nobody waits here', async () => {
    flag.raise()
    flag.lower()
    await answer('others')
    flag.raise()
    expect(server.statements).toHaveLength(2)
  })

  test('is down after a failure, and after its connection is lost', async () => {
    flag.raise()
    const asked = await server.next()
    asked.fail()
    await settled()
    flag.raise()
    await answer('ours')
    flag.forget()
    flag.raise()
    await answer('ours')
    expect(looks).toBe(2)
  })
})

describe('a waiting flag that the server does not move', () => {
  let server: PlayedServer
  let flag: WaitingFlag

  beforeEach(() => {
    vi.useFakeTimers()
    server = new PlayedServer()
    flag = new WaitingFlag({ queue: 'q', execute: server.execute, workerId: () => 7, onCheckAgain: () => undefined })
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  test('is tried for again, later and later, although nobody sleeps', async () => {
    flag.raise()
    for (let tries = 1; tries <= 3; tries++) {
      server.asked[tries - 1]!.fail()
      await vi.advanceTimersByTimeAsync(60_000)
      expect(server.statements).toEqual(Array.from({ length: tries + 1 }, () => RAISE))
    }
  })

  test('is not tried for again when nobody waits any more', async () => {
    flag.raise()
    flag.lower()
    server.asked[0]!.fail()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.statements).toEqual([RAISE])
  })

  test('P5: tells the others later if it could not tell them when it was lowered', async () => {
    flag.raise()
    await answer(0, [{ state: 'ours' }])
    flag.lower()
    for (let tries = 1; tries <= 3; tries++) {
      server.asked[tries]!.fail()
      await vi.advanceTimersByTimeAsync(60_000)
    }
    await answer(4)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.statements).toEqual([RAISE, LOWER, TELL, TELL, TELL])
    expect(server.asked[4]!.params).toEqual(['!7!q'])
  })

  test('need not tell the others if it is raised again', async () => {
    flag.raise()
    await answer(0, [{ state: 'ours' }])
    flag.lower()
    server.asked[1]!.fail()
    await vi.advanceTimersByTimeAsync(0)
    flag.raise()
    await answer(2, [{ state: 'ours' }])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.statements).toEqual([RAISE, LOWER, RAISE])
  })

  test('is given up after one try by a process that may be about to end', async () => {
    flag.raise()
    await answer(0, [{ state: 'ours' }])
    flag.close()
    server.asked[1]!.fail()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.statements).toEqual([RAISE, LOWER])
  })

  async function answer(at: number, rows: readonly Record<string, unknown>[] = []): Promise<void> {
    server.asked[at]!.answer(rows)
    await vi.advanceTimersByTimeAsync(0)
  }
})

describe('a waiting flag whose process hardly sleeps between two messages', () => {
  let server: PlayedServer
  let looks: number
  let flag: WaitingFlag

  beforeEach(async () => {
    vi.useFakeTimers()
    server = new PlayedServer()
    looks = 0
    flag = new WaitingFlag({ queue: 'q', execute: server.execute, workerId: () => 7, onCheckAgain: () => looks++ })
    flag.found(COMMIT_MS)
    flag.raise()
    await answer(0, [{ state: 'ours' }])
    flag.raise()
    await vi.advanceTimersByTimeAsync(COMMIT_MS)
    flag.notified()
    looks = 0
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  test('P5: is lowered without a word, and the process looks by itself before it is raised again', async () => {
    expect(server.statements).toEqual([RAISE, REST])
    await answer(1)
    flag.raise()
    for (let look = 1; look <= 4; look++) {
      await vi.advanceTimersByTimeAsync(10)
      expect(looks).toBeGreaterThanOrEqual(look)
      if (look < 4) flag.raise()
    }
    expect(server.statements).toEqual([RAISE, REST])
    await vi.advanceTimersByTimeAsync(2 * COMMIT_MS)
    flag.raise()
    expect(server.statements).toEqual([RAISE, REST, RAISE])
  })

  test('stays down for as long as messages keep coming', async () => {
    await answer(1)
    for (let message = 0; message < 10; message++) {
      flag.raise()
      await vi.advanceTimersByTimeAsync(COMMIT_MS)
      flag.found(COMMIT_MS)
    }
    expect(server.statements).toEqual([RAISE, REST])
  })

  test('P5: tells the others if the process stays busy', async () => {
    await answer(1)
    flag.found(COMMIT_MS)
    flag.lower()
    expect(server.statements).toEqual([RAISE, REST])
    for (let batch = 0; batch < 4; batch++) {
      await vi.advanceTimersByTimeAsync(COMMIT_MS)
      flag.found(COMMIT_MS)
    }
    expect(server.statements).toEqual([RAISE, REST, TELL])
  })

  test('looks behind an enqueue in flight as soon as any other when it has lingered', async () => {
    await answer(1)
    do {
      flag.raise()
      await vi.advanceTimersByTimeAsync(10)
    } while (server.statements.length === 2)
    await answer(2, [{ state: 'enqueueing' }])
    looks = 0
    await vi.advanceTimersByTimeAsync(2)
    expect(looks).toBe(1)
    flag.raise()
    await answer(3, [{ state: 'enqueueing' }])
    await vi.advanceTimersByTimeAsync(2)
    expect(looks).toBe(1)
  })

  test('P5: tells the others at once if the process stops', async () => {
    await answer(1)
    flag.close()
    expect(server.statements).toEqual([RAISE, REST, TELL])
  })

  test('stays raised if the process slept for long', async () => {
    await answer(1)
    await vi.advanceTimersByTimeAsync(1_000)
    flag.raise()
    await answer(2, [{ state: 'ours' }])
    flag.raise()
    await vi.advanceTimersByTimeAsync(1_000)
    flag.notified()
    expect(server.statements).toEqual([RAISE, REST, RAISE])
  })

  async function answer(at: number, rows: readonly Record<string, unknown>[] = []): Promise<void> {
    server.asked[at]!.answer(rows)
    await vi.advanceTimersByTimeAsync(0)
  }
})

/** How old messages are when they are found. */
const COMMIT_MS = 20
const RAISE = 'sluice_flag_raise'
const REST = 'sluice_flag_rest'
const TELL = 'sluice_flag_announce'
const LOWER = 'sluice_flag_lower'

/** Lets promises that are resolved run on. */
function settled(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
