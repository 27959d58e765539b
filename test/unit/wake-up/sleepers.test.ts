import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Sleepers } from '../../../src/wake-up/sleepers.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'
import { Sleeper } from '../../support/wake-up.ts'

describe('Sleepers', () => {
  let server: PlayedServer
  let listening: boolean
  let sleepers: Sleepers
  let connectionDown: () => void

  beforeEach(() => {
    vi.useFakeTimers()
    server = new PlayedServer()
    listening = false
    sleepers = new Sleepers({
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
    sleepers.attach(sleeper)
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
    sleepers.asleep(sleeper, null)
    sleepers.notified('q')
    sleepers.notified('q')
    expect(sleeper.hints).toEqual(['notification', '(looking) check again'])
  })

  test('a notification concerns its own queue, and nobody if it is consumed no more', () => {
    const [gone, stays] = [attach('a'), attach('b')]
    for (const sleeper of [gone, stays]) sleepers.asleep(sleeper, null)
    sleepers.detach(gone)
    sleepers.notified('a')
    sleepers.notified('b')
    expect([gone.hints, stays.hints]).toEqual([[], ['notification']])
  })

  test('without a name, all queues are woken', () => {
    const waiters = [attach('a'), attach('b')]
    for (const sleeper of waiters) sleepers.asleep(sleeper, null)
    sleepers.wake('reconnect')
    expect(waiters.map(({ hints }) => hints)).toEqual([['reconnect'], ['reconnect']])
  })

  test('the timer of a due time rounds up', () => {
    const sleeper = attach('q')
    sleepers.asleep(sleeper, 20.1)
    vi.advanceTimersByTime(20)
    expect(sleeper.hints).toEqual([])
    vi.advanceTimersByTime(2)
    expect(sleeper.hints).toEqual(['due'])
  })

  test('a queue has one timer, for the earliest due time', () => {
    const sleeper = attach('q')
    sleepers.asleep(sleeper, 500)
    sleepers.asleep(sleeper, 100)
    sleepers.asleep(sleeper, 300)
    expect(vi.getTimerCount()).toBe(1)
    vi.advanceTimersByTime(102)
    expect(sleeper.hints).toEqual(['due'])
    expect(vi.getTimerCount()).toBe(0)
  })

  test('a due time that has passed wakes soon, one in a thousand years does not', () => {
    const [past, far] = [attach('a'), attach('b')]
    sleepers.asleep(past, -50)
    sleepers.asleep(far, 1_000 * 365 * 86_400_000)
    vi.advanceTimersByTime(10_000)
    expect([past.hints, far.hints]).toEqual([['due'], []])
  })

  test('a poll that finds a stream or a group further on hints at claims too that are under way', async () => {
    const [ofStream, ofGroup] = [attach('/orders'), attach('orders:billing')]
    const wait = () => {
      sleepers.asleep(ofStream, null)
      sleepers.asleep(ofGroup, null, 'quiet')
    }
    const pollOf = async (head: string, group: string) => {
      await poll()
      return answer('sluice_stream_heads', [
        { stream: 'orders', state: head, queue: null, held_ms: null },
        { stream: null, state: group, queue: 'orders:billing', held_ms: null },
      ])
    }
    sleepers.start()
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
    sleepers.notified('/orders')
    await answer('sluice_stream_heads', [{ stream: 'orders', state: '3', queue: null, held_ms: null }])
    expect(ofStream.hints).toEqual(['poll', 'poll', 'notification', '(looking) check again'])
  })

  test('polls all queues in which somebody waits in one statement, and wakes those that may have work', async () => {
    const waiters = ['due', 'keyed', 'later', 'empty', 'busy'].map(attach)
    for (const sleeper of waiters) if (sleeper.queue !== 'busy') sleepers.asleep(sleeper, null)
    sleepers.start()
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
      false,
      false,
      null,
    ])
    expect(waiters.map(({ hints }) => hints)).toEqual([['poll'], ['poll'], [], [], []])
    vi.advanceTimersByTime(42)
    expect(waiters[2]?.hints).toEqual(['due'])
  })

  test('gives a sign of life with every tenth poll, and with the first after a change of its queues', async () => {
    const [, gone] = [attach('a'), attach('b')]
    sleepers.start()
    const heartbeats: unknown[] = []
    for (let at = 1; at <= 12; at++) {
      if (at === 5) sleepers.detach(gone)
      heartbeats.push((await poll())[2])
    }
    expect(heartbeats.flatMap((consumed, at) => (consumed === null ? [] : [at + 1]))).toEqual([1, 5, 10])
  })

  test('tells its queues as soon as one is added, those that start together in one statement', async () => {
    sleepers.start()
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
    sleepers.start()
    attach('a')
    await vi.advanceTimersByTimeAsync(0)
    const asked = await server.next()
    asked.fail()
    expect((await poll())[2]).toEqual(['a'])
    expect((await poll())[2]).toBeNull()
  })

  test('a poll that failed is made up for by the next', async () => {
    attach('a')
    sleepers.start()
    await vi.advanceTimersByTimeAsync(POLL_MS)
    const asked = await server.next()
    await vi.advanceTimersByTimeAsync(10_000)
    asked.fail()
    await vi.advanceTimersByTimeAsync(0)
    expect((await poll())[2]).toEqual(['a'])
  })

  test('P6: a slow poll makes the next one later', async () => {
    attach('a')
    sleepers.start()
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
    sleepers.start()
    await poll()
    await vi.advanceTimersByTimeAsync(POLL_MS)
    await vi.advanceTimersByTimeAsync(200)
    await answer('sluice_poll', [])
    await poll()
    expect(server.asked).toHaveLength(3)
  })

  test('raises a flag for a waiter that falls asleep, if notifications arrive', async () => {
    const sleeper = attach('q')
    sleepers.asleep(sleeper, null)
    expect(server.asked).toEqual([])
    listening = true
    sleepers.asleep(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    expect(sleeper.hints).toEqual(['check again'])
  })

  test.each([
    { when: 'its last waiter is busy', how: (sleeper: Sleeper) => sleepers.awake(sleeper) },
    { when: 'its last waiter leaves', how: (sleeper: Sleeper) => sleepers.detach(sleeper) },
    { when: 'notifications no longer arrive', how: () => sleepers.listenerDown() },
    { when: 'the process stops', how: () => void sleepers.stop() },
  ])('lowers the flag when $when', async ({ how }) => {
    listening = true
    const sleeper = attach('q')
    sleepers.asleep(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    sleepers.asleep(sleeper, null)
    how(sleeper)
    expect(await server.next()).toMatchObject({ statement: 'sluice_flag_lower', params: ['q', '!7!q'] })
  })

  test('keeps the flag while one of two waiters waits', async () => {
    listening = true
    const [busy, idle] = [attach('q'), attach('q')]
    for (const sleeper of [busy, idle]) sleepers.asleep(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    for (const sleeper of [busy, idle]) sleepers.asleep(sleeper, null)
    sleepers.awake(busy)
    expect(server.asked).toHaveLength(1)
  })

  test('raises the flag anew after the connection that held it was lost', async () => {
    listening = true
    const sleeper = attach('q')
    sleepers.asleep(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
    connectionDown()
    sleepers.asleep(sleeper, null)
    await answer('sluice_flag_raise', [{ state: 'ours' }])
  })

  test('P5: asks now and then, in one statement, whether those on whose flags it relies are still there', async () => {
    listening = true
    const waiters = ['a', 'b', 'c'].map(attach)
    for (const sleeper of waiters) {
      sleepers.asleep(sleeper, null)
      await answer('sluice_flag_raise', [{ state: sleeper.queue === 'c' ? 'ours' : 'others' }])
    }
    sleepers.start()
    for (let at = 1; at <= 10; at++) await poll()
    expect(await answer('sluice_flag_unwatched', [{ queue: 'b' }])).toEqual([['a', 'b']])
    expect(await server.next()).toMatchObject({ statement: 'sluice_flag_raise', params: ['b'] })
  })
})

const POLL_MS = 1_000
