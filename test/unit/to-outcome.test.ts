import { expect, test } from 'vitest'
import { toOutcomes } from '../../src/handle/to-outcome.ts'
import { ack, snooze } from '../../src/message.ts'

test('what a batch handler returns has an outcome for each message: undefined is one, a hole is none', () => {
  const later = snooze({ after: '1s' })
  expect(toOutcomes([undefined, later, ack()], 3)).toEqual([ack(), later, ack()])
  const holes: unknown[] = [ack(), later]
  holes.length = 3
  const hole =
    "The batch handler's result[2]: expected ack(), retryLater(), snooze() or deadLetter(), received undefined"
  expect(() => toOutcomes(holes, 3)).toThrow(expect.objectContaining({ code: 'OPTION_INVALID' }))
  expect(() => toOutcomes(holes, 3)).toThrow(hole)
  expect(() => toOutcomes(Array(3), 3)).toThrow("The batch handler's result[0]")
})

test('a wrong outcome of a batch is named by its index', () => {
  expect(() => toOutcomes([ack(), 7], 2)).toThrow(
    "The batch handler's result[1]: expected nothing, ack(), retryLater(), snooze() or deadLetter(), received 7",
  )
})
