import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { DueSchedules } from '../../../src/services/due-schedules.ts'
import { Alphabet } from '../../../src/session/alphabet.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'

describe('the service of schedules', () => {
  let server: PlayedServer
  let service: DueSchedules
  let reported: SluiceEvent[]

  beforeEach(() => {
    vi.useFakeTimers()
    server = new PlayedServer()
    reported = []
    service = new DueSchedules({
      control: { execute: server.execute },
      inTransaction: (work) => work(server.execute),
      alphabet: new Alphabet(),
      report: (event) => void reported.push(event),
    })
    service.start()
  })

  afterEach(async () => {
    for (const asked of server.asked) asked.answer([])
    await service.stop()
    vi.useRealTimers()
  })

  test('asks nothing until a poll has found a schedule, and then at its time', async () => {
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.asked).toEqual([])
    service.due(1_500)
    await vi.advanceTimersByTimeAsync(1_499)
    expect(server.asked).toEqual([])
    await vi.advanceTimersByTimeAsync(1)
    expect((await server.next()).statement).toBe('sluice_schedules_next')
  })

  test('wakes at the earliest of the times that it was told, once', async () => {
    for (const ms of [3_000, 1_000, 2_000]) service.due(ms)
    await vi.advanceTimersByTimeAsync(1_000)
    const asked = await server.next()
    expect(asked.statement).toBe('sluice_schedules_next')
    asked.answer([])
    await vi.advanceTimersByTimeAsync(5_000)
    expect(server.asked).toHaveLength(1)
  })

  test('enqueues what is due, and wakes at what follows', async () => {
    const nowUs = 1_000_000_500_000
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const looked = await server.next()
    looked.answer([{ ...ROW, next_us: String(nowUs - 500_000), now_us: String(nowUs) }])
    await vi.advanceTimersByTimeAsync(0)
    const fired = await server.next()
    expect(fired.statement).toBe('sluice_schedule_fire')
    expect(fired.params).toEqual(['tick', '7', iso(1_000_000_000), [iso(1_000_000_000)], iso(1_000_010_000), 0])
    fired.answer([])
    await vi.advanceTimersByTimeAsync(9_499)
    expect(server.asked).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(1)
    expect((await server.next()).statement).toBe('sluice_schedules_next')
  })

  test('computes the next occurrence from when a schedule was resumed, however late it looks', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const looked = await server.next()
    looked.answer([{ ...ROW, planned: false, next_us: '1000000500000', now_us: '1000095500000' }])
    const planned = await server.next()
    expect(planned.statement).toBe('sluice_schedule_plan')
    expect(planned.params).toEqual(['tick', '7', iso(1_000_010_000)])
    planned.answer([])
    for (let tick = 0; tick < 3; tick += 1) await vi.advanceTimersByTimeAsync(0)
    expect((await server.next()).statement).toBe('sluice_schedules_next')
  })

  test('leaves those that have failed out of what it reads next, until it tries them again', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const first = await server.next()
    expect(first.params).toEqual([101, []])
    first.answer(manyDue(1))
    const fired = await server.next()
    fired.fail()
    const failed = await server.next()
    expect(failed.statement).toBe('sluice_schedule_failed')
    failed.answer([])
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const second = await server.next()
    expect(second.params).toEqual([101, ['tick.0 7']])
    second.answer([])
    await vi.advanceTimersByTimeAsync(1_000)
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    expect((await server.next()).params).toEqual([101, []])
  })

  test('begins anew with the waits of one that has been defined anew', async () => {
    for (const revision of ['7', '7', '8']) {
      service.due(0)
      await vi.advanceTimersByTimeAsync(0)
      const looked = await server.next()
      looked.answer(manyDue(1).map((row) => ({ ...row, revision })))
      const fired = await server.next()
      fired.fail()
      const failed = await server.next()
      failed.answer([])
      await vi.advanceTimersByTimeAsync(0)
    }
    const [, second = 0, third] = reported.map((event) => (event.kind === 'schedule.failed' ? event.retryInMs : 0))
    expect(second).toBeGreaterThanOrEqual(1_000)
    expect(third).toBeLessThanOrEqual(1_000)
  })

  test('waits a second if others have all of those in hand that it has read', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const looked = await server.next()
    looked.answer(manyDue(101))
    for (let at = 0; at < 100; at += 1) (await server.next()).answer([])
    await vi.advanceTimersByTimeAsync(900)
    expect(server.asked).toHaveLength(101)
    await vi.advanceTimersByTimeAsync(100)
    expect((await server.next()).statement).toBe('sluice_schedules_next')
  })

  test('counts nothing as missed that was in time when it began to look, however many are before it', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const look = async (now: number, rows: number) => {
      const looked = await server.next()
      looked.answer(manyDue(rows).map((row) => ({ ...row, grace_ms: '1000', now_us: String(now * 1_000) })))
      const fired = []
      for (let at = 0; at < Math.min(rows, 100); at += 1) {
        const asked = await server.next()
        fired.push(asked.params?.[3])
        asked.answer([{ queue: 'q', id: '1', occurrence_us: '1000000000000000' }])
      }
      for (let tick = 0; tick < 3; tick += 1) await vi.advanceTimersByTimeAsync(0)
      return fired
    }
    const occurrence = [iso(1_000_000_000_000)]
    expect(await look(1_000_000_000_500, 101)).toEqual(Array.from({ length: 100 }, () => occurrence))
    // Nine seconds later, which is more than the grace; and then with nothing due in between.
    expect(await look(1_000_000_009_500, 101)).toEqual(Array.from({ length: 100 }, () => occurrence))
    expect(await look(1_000_000_009_999, 1)).toEqual([occurrence])
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    expect(await look(1_000_000_009_999, 1)).toEqual([[]])
  })

  test('looks once more for what falls due while it enqueues', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const looked = await server.next()
    for (const ms of [100, 200]) {
      service.due(ms)
      await vi.advanceTimersByTimeAsync(ms)
    }
    looked.answer([])
    await vi.advanceTimersByTimeAsync(1_000)
    expect(server.statements).toEqual(['sluice_schedules_next', 'sluice_schedules_next'])
    server.asked[1]?.answer([])
    await vi.advanceTimersByTimeAsync(60_000)
    expect(server.asked).toHaveLength(2)
  })

  test('stops after the schedule that it has in hand', async () => {
    service.due(0)
    await vi.advanceTimersByTimeAsync(0)
    const looked = await server.next()
    looked.answer(manyDue(3))
    const fired = await server.next()
    const stopped = service.stop()
    fired.answer([])
    await stopped
    expect(server.statements).toEqual(['sluice_schedules_next', 'sluice_schedule_fire'])
  })

  test('starts nothing after it has been stopped', async () => {
    service.due(1_000)
    await service.stop()
    service.due(0)
    await vi.advanceTimersByTimeAsync(5_000)
    expect(server.asked).toEqual([])
  })
})

/** So many schedules that are due at once, and the time. */
function manyDue(count: number): Record<string, unknown>[] {
  const [next_us, now_us] = ['1000000000000000', '1000000000500000']
  return Array.from({ length: count }, (_, at) => ({ ...ROW, name: `tick.${at}`, next_us, now_us }))
}

const ROW = {
  name: 'tick',
  queue: 'q',
  cron: null,
  every_ms: '10000',
  zone: 'UTC',
  missed: 'skip',
  grace_ms: '60000',
  catch_up_most: 100,
  catch_up_ms: '604800000',
  revision: '7',
  planned: true,
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
