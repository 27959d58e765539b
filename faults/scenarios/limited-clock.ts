import { installSqlClock, stepSqlClock } from '../environment/sql-clock.ts'
import { scenario } from '../run/scenario.ts'
import { PERMITS_UNLOCKED, PERMITS_WITHOUT_LEASE } from '../twins/limit-twins.ts'
import { onSteppableClock } from './clock-steps.ts'
import { enqueueBurst, LIMIT, LIMITED, tell } from './limits.ts'

/** The longest step, in milliseconds: some leases run out by it while their handlers go on. */
const LONGEST_MS = 1_500

/** The auditor has a clock of its own: whatever the database's says, no more are in flight than the queue was told. */
export const limitedClock = scenario({
  name: 'limited-clock',
  title: `the database's clock steps by up to ${LONGEST_MS} ms, forwards and back, in a queue with a limit of messages in flight`,
  recoveryMs: LONGEST_MS + 5_000,
  injections: { quick: 2, full: 12 },
  environment: onSteppableClock,
  ...LIMITED,
  otherwise: {
    recoveryMs: LONGEST_MS + 15_000,
    costsAttempts: true,
    workers: { lingerMs: 50, pipeline: { concurrency: 8, batchSize: 4, lease: '2s' } },
    twin: PERMITS_WITHOUT_LEASE,
  },
  twin: PERMITS_UNLOCKED,
  async prepare(stage) {
    await tell(stage, 'concurrency', LIMIT)
    await installSqlClock((text, params) => stage.sql(text, params))
  },
  async inject(stage, at) {
    const ids = await enqueueBurst(stage)
    const back = at % 2 === 1
    const ms = Math.round(LONGEST_MS * (0.3 + 0.7 * stage.random.next()))
    await stage.fault(back ? 'set back' : 'set forwards', () =>
      stepSqlClock((text, params) => stage.sql(text, params), back ? -ms : ms),
    )
    for (const id of ids) await stage.handled(id, 30_000)
  },
})
