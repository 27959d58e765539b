import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { pick, type Step, stepsOf } from '../support/models/model-steps.ts'
import { PriorityModel } from '../support/models/priority-model.ts'

const place = fc.nat(50)
const limit = fc.integer({ min: 1, max: 4 })
const priority = fc.constantFrom(0, 5, 9)
const delayUs = fc.constantFrom(0, 0, 3, 20)

const step = stepsOf<PriorityModel>()

const inserts = step('insert', fc.tuple(priority, delayUs), (model, [of, delay]) => model.insert(of, delay, true))
const timePasses = step('wait', fc.integer({ min: 1, max: 10 }), (model, us) => model.wait(us))
const sends = step('send', limit, (model, count) => void model.send(count, false))
const sendsApart = step('send apart', fc.tuple(limit, fc.integer({ min: 0, max: 6 })), (model, [count, offset]) =>
  model.send(count, false, offset),
)
const sweeps = step('sweep', limit, (model, count) => void model.send(count, true))
const runs = step('run', place, (model, at) => {
  const claim = pick(model.waiting, at)
  if (claim !== undefined) model.run(claim)
})
const answers = step('answer', place, (model, at) => {
  const claim = pick(model.sent, at)
  if (claim !== undefined) model.answer(claim)
})
const acks = step('ack', place, (model, at) => model.ackBatch(at))
const rollsBack = step('roll back', place, (model, at) => model.rollBackBatch(at))
const retries = step('retry', fc.tuple(place, fc.integer({ min: 1, max: 9 })), (model, [at, us]) =>
  model.retryBatch(at, us),
)

const orderly = [
  inserts,
  inserts,
  timePasses,
  sends,
  sendsApart,
  sweeps,
  runs,
  answers,
  answers,
  acks,
  rollsBack,
  retries,
]

const insertsLate = step('insert late', fc.tuple(priority, delayUs), (model, [of, delay]) =>
  model.insert(of, delay, false),
)
const commits = step('commit', place, (model, at) => model.commit(at))

const steps = (...arbitraries: readonly fc.Arbitrary<Step<PriorityModel>>[]) =>
  fc.array(fc.oneof(...arbitraries), { maxLength: 80, size: 'max' })

describe('P6: floors of priorities', () => {
  test('never stand above a row that nobody has, while nothing commits late', () => {
    fc.assert(
      fc.property(steps(...orderly), (sequence) => {
        const model = new PriorityModel()
        for (const act of sequence) {
          act(model)
          expect(model.hidden()).toEqual([])
        }
      }),
      { numRuns: 500 },
    )
  })

  test('would stand above rows that nobody has, if they went up past what a claim left before it', () => {
    const run = fc.check(
      fc.property(steps(...orderly), (sequence) => {
        const model = new PriorityModel({ raisedPastSkipped: true })
        for (const act of sequence) {
          act(model)
          expect(model.hidden()).toEqual([])
        }
      }),
      { numRuns: 30_000, endOnFailure: true },
    )
    expect(run.failed).toBe(true)
  })

  test('cost rows that commit late a sweep, and never more: every row is claimed in the end', () => {
    fc.assert(
      fc.property(steps(...orderly, insertsLate, commits), limit, (sequence, count) => {
        const model = new PriorityModel()
        for (const act of sequence) act(model)
        model.settleDown()
        drain(model, count)
        expect(model.in('free', 'locked')).toEqual([])
      }),
      { numRuns: 500 },
    )
  })

  test('let floored claims go on where a full sweep stopped', () => {
    fc.assert(
      fc.property(steps(inserts, insertsLate, timePasses, sends, answers, acks), limit, (sequence, count) => {
        const model = new PriorityModel()
        for (const act of sequence) act(model)
        model.settleDown()
        const last = model.answer(model.send(count, true)).at(-1)
        while (model.answer(model.send(count, false)).length > 0);
        const left = model.in('free').filter((row) => row.priority === last?.priority)
        expect(left).toEqual([])
      }),
      { numRuns: 500 },
    )
  })
})

/** As a claimer does: claims with floors until one finds nothing, then sweeps, until a sweep finds nothing. */
function drain(model: PriorityModel, count: number): void {
  do {
    model.ackBatch(0)
    while (model.answer(model.send(count, false)).length > 0) model.ackBatch(0)
  } while (model.answer(model.send(count, true)).length > 0)
}
