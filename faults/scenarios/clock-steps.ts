import { installSqlClock, onSqlClock, stepSqlClock } from '../environment/sql-clock.ts'
import { type Environment, ownDatabase } from '../run/environment.ts'
import { scenario } from '../run/scenario.ts'
import { FLOOR_WITHOUT_SWEEP } from '../twins/twins.ts'

/** The longest step, in milliseconds. */
const LONGEST_MS = 1_500

/**
 * What a step of the database's clock may do: after one back by x, what was enqueued before it, or waits for its retry,
 * may come up to x later. What is enqueued afterwards is not delayed, and nothing is lost, repeated or out of order.
 */
export const clockSteps = scenario({
  name: 'clock-steps',
  title: `the database's clock steps by up to ${LONGEST_MS} ms, forwards and back, with delayed messages in the load`,
  recoveryMs: LONGEST_MS + 2_000,
  flow: 60,
  injections: { quick: 4, full: 20 },
  environment: onSteppableClock,
  load: { delayed: 0.3, delayMs: 2_000 },
  twin: {
    name: 'clock-that-only-rises',
    title: 'floors that do not follow the clock back, and no sweep below them',
    edits: [
      ...FLOOR_WITHOUT_SWEEP.edits,
      {
        file: 'claim/floored-claims.ts',
        from: '    this.#clock = { nowUs: taken.nowUs, atMs: performance.now() }\n',
        to: '    if (taken.nowUs > this.#clock.nowUs) this.#clock = { nowUs: taken.nowUs, atMs: performance.now() }\n',
      },
    ],
    // Late commits would be missed without any step.
    load: { long: 0 },
    caught: ['stuck'],
  },
  prepare: (stage) => installSqlClock((text, params) => stage.sql(text, params)),
  async inject(stage, at) {
    const back = at % 2 === 1
    const ms = Math.round(LONGEST_MS * (0.3 + 0.7 * stage.random.next()))
    await stage.fault(back ? 'set back' : 'set forwards', () =>
      stepSqlClock((text, params) => stage.sql(text, params), back ? -ms : ms),
    )
  },
})

/** A database whose clock can be stepped: `installSqlClock` has yet to be called. */
export async function onSteppableClock(serverUrl: string): Promise<Environment> {
  const environment = await ownDatabase(serverUrl)
  const url = new URL(environment.url)
  url.searchParams.set('options', onSqlClock(environment.url).options ?? '')
  return { ...environment, url: url.href }
}
