import fc from 'fast-check'
import { expect, test } from 'vitest'
import { pick, stepsOf } from '../support/models/model-steps.ts'

/** What a queue should do, in a few lines: messages that wait, those in flight, and those that are gone. */
class QueueModel {
  readonly waiting: number[] = []
  readonly inFlight: number[] = []
  readonly gone: number[] = []
  enqueued = 0

  enqueue(count: number): void {
    for (let n = 0; n < count; n++) this.waiting.push(this.enqueued++)
  }

  claim(): void {
    const message = this.waiting.shift()
    if (message !== undefined) this.inFlight.push(message)
  }

  settle(place: number): void {
    const message = pick(this.inFlight, place)
    if (message !== undefined) this.gone.push(...this.inFlight.splice(this.inFlight.indexOf(message), 1))
  }
}

const step = stepsOf<QueueModel>()
const steps = [
  step('enqueue', fc.integer({ min: 1, max: 3 }), (model, count) => model.enqueue(count)),
  step('claim', fc.constant(undefined), (model) => model.claim()),
  step('settle', fc.nat(50), (model, place) => model.settle(place)),
]

test('a message is in one place at a time, whatever happens', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(...steps), { maxLength: 40 }), (sequence) => {
      const model = new QueueModel()
      for (const act of sequence) act(model)
      const all = [...model.waiting, ...model.inFlight, ...model.gone].toSorted((a, b) => a - b)
      expect(all).toEqual(Array.from({ length: model.enqueued }, (_, n) => n))
    }),
  )
})
