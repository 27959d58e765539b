import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { Demand } from '../../src/demand/demand.ts'
import type { Next, Round, RoundDemand } from '../../src/demand/round.ts'
import { Sleepers } from '../../src/wake-up/sleepers.ts'
import { PlayedServer } from '../support/servers/played-server.ts'

describe('a runner whose look has failed', () => {
  let round: PlayedRound
  let sleepers: Sleepers
  let demand: Demand

  beforeEach(() => {
    vi.useFakeTimers()
    round = new PlayedRound()
    const control = { execute: new PlayedServer().execute, onDown: () => undefined }
    sleepers = new Sleepers({ control, workerId: () => 7, pollIntervalMs: 60_000, listening: () => false })
    demand = new Demand(PLAN, round, sleepers, () => undefined)
  })

  afterEach(async () => {
    const drained = demand.drain()
    for (const look of round.looks) look.resolve(NOTHING)
    await drained
    vi.useRealTimers()
  })

  test('leaves its demand asleep, so that the next hint wakes another runner while it waits', async () => {
    demand.start()
    await round.finds(NOTHING)
    for (const looks of [2, 3]) {
      sleepers.wake('notification')
      await vi.advanceTimersByTimeAsync(0)
      expect(round.looks).toHaveLength(looks)
      await round.fails()
    }
  })

  test('wakes no other runner by itself: none looks before it has waited or is hinted at', async () => {
    demand.start()
    await round.fails()
    await vi.advanceTimersByTimeAsync(49)
    expect(round.looks).toHaveLength(1)
    await vi.advanceTimersByTimeAsync(52)
    expect(round.looks).toHaveLength(2)
  })

  test('puts nothing to sleep if another runner looks, which does so itself', async () => {
    demand.start()
    await round.finds(NOTHING)
    sleepers.wake('poke')
    await vi.advanceTimersByTimeAsync(0)
    const first = round.looks.at(-1)!
    round.demand!.found({ full: true, youngestMs: 0 })
    await vi.advanceTimersByTimeAsync(0)
    expect(round.looks).toHaveLength(3)
    const asleep = vi.spyOn(sleepers, 'asleep')
    await round.fails(first)
    expect(asleep).not.toHaveBeenCalled()
    await round.finds(NOTHING)
    expect(asleep).toHaveBeenCalledOnce()
  })

  test.for([
    ['a round that a pause has ended', { kind: 'claim' }],
    ['a round that found nothing', { kind: 'sleep', nextDueMs: null, partial: false }],
  ] as const)('claims again if it is resumed while its runner goes to sleep, after %s', async ([, ran]) => {
    for (let microtasks = 0; microtasks < 8; microtasks += 1) {
      demand.start()
      demand.pause()
      round.looks.at(-1)!.resolve(ran)
      for (let at = 0; at < microtasks; at += 1) await Promise.resolve()
      const looks = round.looks.length
      demand.resume()
      await vi.advanceTimersByTimeAsync(0)
      expect(round.looks.length, `after ${microtasks} microtasks`).toBeGreaterThan(looks)
      const drained = demand.drain()
      for (const look of round.looks) look.resolve(NOTHING)
      await drained
      demand = new Demand(PLAN, round, sleepers, () => undefined)
    }
  })

  test('looks again when what it has settled is due again, at once or later', async () => {
    demand.start()
    await round.finds(NOTHING)
    round.demand!.due([40, 0])
    await vi.advanceTimersByTimeAsync(0)
    expect(round.looks).toHaveLength(2)
    await round.finds(NOTHING)
    await vi.advanceTimersByTimeAsync(39)
    expect(round.looks).toHaveLength(2)
    await vi.advanceTimersByTimeAsync(8)
    expect(round.looks).toHaveLength(3)
  })

  test('counts hints, and no time that a claim has given', async () => {
    demand.start()
    const { hints } = round.demand!
    await round.finds({ ...NOTHING, nextDueMs: 20 })
    await vi.advanceTimersByTimeAsync(30)
    expect(round.looks).toHaveLength(2)
    expect(round.demand!.hints).toBe(hints)
    await round.finds(NOTHING)
    round.demand!.due([20])
    await vi.advanceTimersByTimeAsync(30)
    expect(round.looks).toHaveLength(3)
    expect(round.demand!.hints).toBe(hints + 1)
  })

  test('puts nothing to sleep after the end', async () => {
    demand.start()
    const asleep = vi.spyOn(sleepers, 'asleep')
    const drained = demand.drain()
    await round.fails()
    await drained
    expect(asleep).not.toHaveBeenCalled()
  })
})

const PLAN = { queue: 'q', concurrency: 3, throttleMs: undefined }

const NOTHING = { kind: 'sleep', nextDueMs: null, partial: false } as const

/** A round that looks when it is run, and ends as the test says. */
class PlayedRound implements Round {
  readonly looks: PromiseWithResolvers<Next>[] = []
  demand: RoundDemand | undefined

  async run(demand: RoundDemand): Promise<Next> {
    this.demand = demand
    const look = Promise.withResolvers<Next>()
    this.looks.push(look)
    demand.sent()
    return await look.promise.finally(() => demand.answered())
  }

  async finds(ran: Next, look = this.looks.at(-1)!): Promise<void> {
    look.resolve(ran)
    await vi.advanceTimersByTimeAsync(0)
  }

  async fails(look = this.looks.at(-1)!): Promise<void> {
    look.reject(new Error('the claim failed'))
    await vi.advanceTimersByTimeAsync(0)
  }

  failed(error: unknown): unknown {
    return error
  }

  resize(concurrency: number): number {
    return concurrency
  }

  get connections(): number {
    return PLAN.concurrency
  }

  async drained(): Promise<boolean> {
    return false
  }

  cut(): void {}
}
