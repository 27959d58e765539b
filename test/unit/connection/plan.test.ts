import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { resolveConfig } from '../../../src/config.ts'
import type { Wanted } from '../../../src/plan/share-connections.ts'
import { Assembly } from '../../../src/process/assembly.ts'
import { ConnectionPlan } from '../../../src/process/connection-plan.ts'
import { RunShares } from '../../../src/process/run-shares.ts'
import type { Report } from '../../../src/telemetry/events.ts'

const emails: Wanted = { queue: 'emails', mode: 'transactional', concurrency: 8 }
const reports: Wanted = { queue: 'reports', mode: 'leased', concurrency: 40 }

beforeEach(() => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
})

describe('the plan of connections', () => {
  test('stays as it was when a pipeline is refused', () => {
    const { plan, plans } = planOf(4)
    const share = plan.join(emails)
    const limits: number[] = []
    share.govern((batches) => limits.push(batches))
    expect(() => plan.join({ ...emails, queue: 'late' })).toThrow('expected at least 5')
    expect(() => plan.fix(2)).toThrow('expected at least 6')
    plan.work()
    plan.announce()
    expect(plans()).toEqual([{ queues: ['emails'], batches: [1], leased: 0, control: 2 }])
    share.leave()
    plan.join({ ...emails, queue: 'late' })
    expect(new Set(limits)).toEqual(new Set([1]))
  })

  test('is reported again when a pipeline has joined, and when it has left', () => {
    const { plan, plans } = planOf(20)
    plan.work()
    plan.join(emails)
    vi.runAllTimers()
    const share = plan.join(reports)
    vi.runAllTimers()
    share.leave()
    share.leave()
    vi.runAllTimers()
    expect(plans().map(({ queues }) => queues)).toEqual([['emails'], ['emails', 'reports'], ['emails']])
  })

  test('has no room left over for a claim that could not open its connections', async () => {
    const resolved = resolveConfig({ connection: 'postgres://127.0.0.1:1/none', maxConnections: 4 })
    const broken = {
      ...resolved,
      get connection(): never {
        throw new Error('cannot be loaded')
      },
    }
    const { parts, shared } = new Assembly(broken)
    const lines = await parts.claimLines()
    const waiting = lines.claim('emails', async () => undefined, 60_000, undefined)
    await expect(waiting).rejects.toThrow('cannot be loaded')
    expect(() => shared.connections.join(emails)).not.toThrow()
  })
})

describe('runs of a pipeline', () => {
  test('have one share together, with a batch for each', () => {
    const { plan, plans } = planOf(8)
    const runs = new RunShares(plan)
    const leaves = Array.from({ length: 8 }, () => runs.enter(emails))
    plan.work()
    plan.announce()
    for (const leave of leaves.slice(0, 7)) leave()
    plan.announce()
    leaves[7]!()
    plan.join({ ...emails, queue: 'next' })
    plan.announce()
    expect(plans().map(({ queues, batches }) => [...queues, ...batches])).toEqual([
      ['emails', 4],
      ['emails', 1],
      ['next', 4],
    ])
  })

  test('in leased mode have the concurrency of the pipeline', () => {
    const { plan, plans } = planOf(40)
    plan.work()
    new RunShares(plan).enter(reports)
    plan.announce()
    // A claim, a settlement, and ten transactions of handlers.
    expect(plans()).toMatchObject([{ queues: ['reports'], leased: 12 }])
  })

  test('are not reported as they come and go', () => {
    const { plan, plans } = planOf(8)
    plan.work()
    vi.runAllTimers()
    const runs = new RunShares(plan)
    for (let pass = 0; pass < 3; pass += 1) {
      const leaves = [runs.enter(emails), runs.enter(emails)]
      for (const leave of leaves) {
        vi.runAllTimers()
        leave()
      }
    }
    expect(plans()).toEqual([])
  })
})

function planOf(max: number) {
  const events: Parameters<Report>[0][] = []
  const plan = new ConnectionPlan(max, (event) => void events.push(event))
  const plans = () =>
    events
      .filter((event) => event.kind === 'connections.planned')
      .map(({ pipelines, leased, control }) => ({
        queues: pipelines.map(({ queue }) => queue),
        batches: pipelines.map(({ batches }) => batches),
        leased,
        control,
      }))
  return { plan, plans }
}
