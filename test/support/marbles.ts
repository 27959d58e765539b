import { type RunHelpers, TestScheduler } from 'rxjs/testing'
import { expect } from 'vitest'

/** Runs marbles in virtual time, one frame a millisecond, and compares them with vitest's `expect`. */
export function marbles(run: (helpers: RunHelpers, scheduler: TestScheduler) => void): void {
  const scheduler = new TestScheduler((actual, expectedMarbles) => expect(actual).toEqual(expectedMarbles))
  scheduler.run((helpers) => run(helpers, scheduler))
}
