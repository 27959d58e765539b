import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Scheduler } from '../../src/wake-up/scheduler.ts'
import { PlayedServer } from '../support/servers/played-server.ts'
import { Sleeper } from '../support/wake-up.ts'

describe('Scheduler', () => {
  let server: PlayedServer
  let listening: boolean
  let scheduler: Scheduler
  let connectionDown: () => void

  beforeEach(() => {
    vi.useFakeTimers()
    server = new PlayedServer()
    listening = false
    scheduler = new Scheduler({
      control: {
        execute: server.execute,
        onDown: (listener) => {
          connectionDown = listener
        },
      },
      workerId: () => 7,
      pollIntervalMs: POLL_MS,
      listening: () => listening,
      random: () => 0,
    })
  })

  afterEach(() => {
    vi.useRealTimers()
  })

  function attach(queue: string): Sleeper {
    const sleeper = new Sleeper(queue)
    scheduler.attach(sleeper)
    return sleeper
  }

  async function answer(statement: string, rows: readonly Record<string, unknown>[]) {
    const asked = await server.next()
    expect(asked.statement).toBe(statement)
    asked.answer(rows)
    await vi.advanceTimersByTimeAsync(0)
    return asked.params
  }

  async function poll(rows: readonly Record<string, unknown>[] = []) {
    await vi.advanceTimersByTimeAsync(POLL_MS)
    return answer('sluice_poll', rows)
  }

  test('P5: a wake-up during a look asks for another look', () => {
    const sleeper = attach('q')
    scheduler.park(sleeper, null)
    scheduler.notified('q')
    scheduler.notified('q')
    expect(sleeper.hints).toEqual(['notification', '(looking) check again'])
  })

  test('a notification concerns its own queue, and nobody if it is consumed no more', () => {
    const [gone, stays] = [attach('a'), attach('b')]
    for (const sleeper of [gone, stays]) scheduler.park(sleeper, null)
    scheduler.detach(gone)
    scheduler.notified('a')
    scheduler.notified('b')
    expect([gone.hints, stays.hints]).toEqual([[], ['notification']])
  })

  test('without a name, all queues are woken', () => {
    const sleepers = [attach('a'), attach('b')]
    for (const sleeper of sleepers) scheduler.park(sleeper, null)
    scheduler.wake('reconnect')
    expect(sleepers.map(({ hints }) => hints)).toEqual([['reconnect'], ['reconnect']])
  })

  test('the timer of a due time rounds up', () => {
    const sleeper = attach('q')
    scheduler.park(sleeper, 20.1)
    vi.advanceTimersByTime(20)
    expect(sleeper.hints).toEqual([])
    vi.advanceTimersByTime(2)
    expect(sleeper.hints).toEqual(['due'])
  })

  test('a queue has one timer, for the earliest due time', () => {
    const sleeper = attach('q')
    scheduler.park(sleeper, 500)
    scheduler.park(sleeper, 100)
    scheduler.park(sleeper, 300)
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(102)
    expect(sleeper.hints).toEqual(['due'])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a due time that has passed wakes soon, one in a thousand years does not', () => {
    const [past, far] = [attach('a'), attach('b')]
    scheduler.park(past, -50)
    scheduler.park(far, 1_000 * 365 * 86_400_000)
    vi.advanceTimersByTime(10_000)
    expect([past.hints, far.hints]).toEqual([['due'], []])
  })

  test('a poll that finds a stream or a group further on hints at claims too that are under way', async () => {
    const [ofStream, ofGroup] = [attach('/orders'), attach('orders:billing')]
    const wait = () => {
      scheduler.park(ofStream, null)
      scheduler.park(ofGroup, null, 'quiet')
    }
    const pollOf = async (head: string, group: string) => {
      await poll()
      return answer('sluice_stream_heads', [
        { stream: 'orders', state: head, queue: null, held_ms: null },
        { stream: null, state: group, queue: 'orders:billing', held_ms: null },
      ])
    }
    scheduler.start()
    for (const [head, group] of [
      ['1', 'a'],
      ['1', 'a'],
      ['2', 'a'],
      ['2', 'b'],
    ] as const) {
      wait()
      await pollOf(head, group)
    }
    expect([ofStream.hints, ofGroup.hints]).toEqual([
      ['poll', 'poll'],
      ['poll', 'poll'],
    ])
    wait()
    await poll()
    scheduler.notified('/orders')
    await answer('sluice_stream_heads', [{ stream: 'orders', state: '3', queue: null, held_ms: null }])
    expect(ofStream.hints).toEqual(['poll', 'poll', 'notification', '(looking) check again'])
  })

  test('polls all queues in which somebody waits in one statement, and wakes those that may have work', async () => {
    const sleepers = ['due', 'keyed', 'later', 'empty', 'busy'].map(attach)
    for (const sleeper of sleepers) if (sleeper.queue !== 'busy') scheduler.park(sleeper, null)
    scheduler.start()
    const params = await poll([
      { queue: 'due', next_due_us: -3_000, keyed: false },
      { queue: 'keyed', next_due_us: null, keyed: true },
      { queue: 'later', next_due_us: 40_000, keyed: false },
      { queue: 'busy', next_due_us: 0, keyed: false },
      { queue: 'unknown', next_due_us: 0, keyed: false },
    ])
    expect(params).toEqual([
      7,
      ['due', 'keyed', 'later', 'empty'],
      ['due', 'keyed', 'later', 'empty', 'busy'],
      null,
      null,
    ])
    expect(sleepers.map(({ hints }) => hints)).toEqual([['poll'], ['poll'], [], [], []])
    vi.advanceTimersByTime(42)
    expect(sleepers[2]?.hints).toEqual(['due'])
  })

  test('gives a sign of life with every tenth poll, and with the first after a change of its queues', async () => {
    const [, gone] = [attach('a'), attach('b')]
    scheduler.start()
    const heartbeats: unknown[] = []
    for (let at = 1; at <= 12; at++) {
      if (at === 5) scheduler.detach(gone)
      heartbeats.push((await poll())[2])
    }
    expect(heartbeats.flatMap((consumed, at) => (consumed === null ? [] : [at + 1]))).toEqual([1, 5, 10])
  })

  test('tells its queues as soon as one is added, those that start together in one statement', async () => {
    scheduler.start()
    for (const queue of ['a', 'b', 'a']) attach(queue)
    await vi.advanceTimersByTimeAsync(0)
    expect(await answer('sluice_worker_queues', [])).toEqual([7, ['a', 'b']])
    attach('b')
    expect((await poll())[2]).toBeNull()
    attach('c')
    await vi.advanceTimersByTimeAsync(0)
    expect(await answer('sluice_worker_queues', [])).toEqual([7, ['a', 'b', 'c']])
    expect(server.asked).toHaveLength(3)
  })

  test('tells them with the next poll if that failed', async () => {
    scheduler.start()
    attach('a')
    await vi.advanceTimersByTimeAsync(0)
    const asked = await server.next()
    asked.fail()
    expect((await poll())[2]).toEqual(['a'])
    expect((await poll())[2]).toBeNull()
  })

  test('a poll that failed is made up for by the next', async () => {
    attach('a')
    scheduler.start()
    await vi.advanceTimersByTimeAsync(POLL_MS)
    const asked = await server.next()
    await vi.advanceTimersByTimeAsync(10_000)
    asked.fail()
    await vi.advanceTimersByTimeAsync(0)
    expect((await poll())[2]).toEqual(['a'])
  })

  test('P6: a slow poll makes the next one later', async () => {
    attach('a')
    scheduler.start()
    await vi.advanceTimersByTimeAsync(POLL_MS)
    await vi.advanceTimersByTimeAsync(200)
    await answer('sluice_poll', [])
    await vi.advanceTimersByTimeAsync(3_990)
    expect(server.asked).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(20)
    expect(server.asked).toHaveLength(2)
  })

  test('P5: a single slow poll, which may have waited for another statement, does not', async () => {
    attach('a')
    scheduler.start()
    await poll()
    await vi.advanceTimersByTimeAsync(POLL_MS)
    await vi.advanceTimersByTimeAsync(200)
    await answer('sluice_poll', [])
    await poll()
    expect(server.asked).toHaveLength(3)
  })

  test('raises a flag for who parks, if notifications arrive', async () => {
    const sleeper = attach('q')
    scheduler.park(sleeper, null)
    expect(server.asked).toEqual([])
    listening = true
    scheduler.park(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    expect(sleeper.hints).toEqual(['check again'])
  })

  test.each([
    { when: 'its last waiter is busy', how: (sleeper: Sleeper) => scheduler.unpark(sleeper) },
    { when: 'its last waiter leaves', how: (sleeper: Sleeper) => scheduler.detach(sleeper) },
    { when: 'notifications no longer arrive', how: () => scheduler.listenerDown() },
    { when: 'the process stops', how: () => void scheduler.stop() },
  ])('lowers the flag when $when', async ({ how }) => {
    listening = true
    const sleeper = attach('q')
    scheduler.park(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    scheduler.park(sleeper, null)
    how(sleeper)
    expect(await server.next()).toMatchObject({ statement: 'sluice_flag_lower', params: ['q', '!7!q'] })
  })

  test('keeps the flag while one of two waiters waits', async () => {
    listening = true
    const [busy, idle] = [attach('q'), attach('q')]
    for (const sleeper of [busy, idle]) scheduler.park(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    for (const sleeper of [busy, idle]) scheduler.park(sleeper, null)
    scheduler.unpark(busy)
    expect(server.asked).toHaveLength(1)
  })

  test('raises the flag anew after the connection that held it was lost', async () => {
    listening = true
    const sleeper = attach('q')
    scheduler.park(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    connectionDown()
    scheduler.park(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
  })

  test('P5: asks now and then, in one statement, whether those on whose flags it relies are still there', async () => {
    listening = true
    const sleepers = ['a', 'b', 'c'].map(attach)
    for (const sleeper of sleepers) {
      scheduler.park(sleeper, null)
      await answer('sluice_flag_raise', [{ state: sleeper.queue === 'c' ? 'ours' : 'others' }])
    }
    scheduler.start()
    for (let at = 1; at <= 10; at++) await poll()
    expect(await answer('sluice_flag_unwatched', [{ queue: 'b' }])).toEqual([['a', 'b']])
    expect(await server.next()).toMatchObject({ statement: 'sluice_flag_raise', params: ['b'] })
  })
})

const POLL_MS = 1_000
