import { describe, expect } from 'vitest'
import { Allowance } from '../../src/claim/allowance.ts'
import type { ClaimAnswer } from '../../src/claim/claim-answer.ts'
import { Limiter } from '../../src/claim/limiter.ts'
import { executeOn } from '../../src/connection/open-client.ts'
import { Settings } from '../../src/settings/settings.ts'
import { setQueueColumns } from '../support/rows/queue-settings.ts'
import { emptyBuckets, giveTokens, putOfTenants } from '../support/rows/tenants.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/sluice.ts'

const HOUR_MS = 3_600_000

/** A limiter in a session of its own. It says what it allows, or in how many milliseconds to ask again. */
interface Asked {
  readonly demand: { hints: number }
  ask(): Promise<Allowance | number | null>
}

/** Among 500 tenants without tokens, `tenant 1350` has the first one in half an hour. Three claims find that out. */
async function afterOneRound(database: TestDatabase, queue: string, work: (asked: Asked) => Promise<void>) {
  await setQueueColumns(database, queue, { tenant_rate: 1, tenant_rate_ms: HOUR_MS })
  await putOfTenants(database, queue, 500)
  await emptyBuckets(database, queue)
  await giveTokens(database, queue, 'tenant 1350', 0.5)
  const client = await database.pool.connect()
  try {
    const execute = executeOn(client)
    const settings = new Settings()
    await settings.load(execute)
    const limiter = new Limiter(queue, { execute }, settings)
    const demand = { draining: new AbortController().signal, hints: 0, sent() {}, answered() {}, opened() {} }
    const ask = async () => {
      const answer = await limiter.admit(demand, 10, 1)
      if (answer instanceof Allowance) return answer
      return 'kind' in answer ? answer.nextDueMs : Number.NaN
    }
    expect([await ask(), await ask()]).toEqual([STEP_MS, STEP_MS])
    const waitMs = await ask()
    expect(waitMs).toBeGreaterThan(HOUR_MS / 3)
    expect(waitMs).toBeLessThanOrEqual(HOUR_MS / 2)
    await work({ demand, ask })
  } finally {
    client.release()
  }
}

describe('claims that have been round all tenants and found that each has to wait', () => {
  test('go on where the first one gets its token', ({ database, queue }) =>
    afterOneRound(database, queue, async ({ ask }) => {
      await giveTokens(database, queue, 'tenant 1350', 1)
      expect(await ask()).toBeInstanceOf(Allowance)
    }))

  test('wait no longer than until a message is due', ({ database, queue }) =>
    afterOneRound(database, queue, async ({ demand, ask }) => {
      await database.sql(
        `INSERT INTO sluice.message (queue, payload, tenant, due_at) VALUES ($1, '{}', 'tenant 2000', now() + interval '10 min')`,
        [queue],
      )
      demand.hints += 1
      expect([await ask(), await ask()]).toEqual([STEP_MS, STEP_MS])
      const waitMs = await ask()
      expect(waitMs).toBeGreaterThan(STEP_MS)
      expect(waitMs).toBeLessThanOrEqual(HOUR_MS / 6)
    }))

  test('go round once more from where a hint comes', ({ database, queue }) =>
    afterOneRound(database, queue, async ({ demand, ask }) => {
      demand.hints += 1
      expect(await ask(), 'tenants 1200 to 1399').toBe(STEP_MS)
      await giveTokens(database, queue, 'tenant 1390', 1)
      demand.hints += 1
      expect([await ask(), await ask()], 'tenants 1400 to 1299').toEqual([STEP_MS, STEP_MS])
      expect(await ask()).toBeInstanceOf(Allowance)
    }))

  test('go round once more from where a batch of the process ends', ({ database, queue }) =>
    afterOneRound(database, queue, async ({ ask }) => {
      await giveTokens(database, queue, 'tenant 1350', 1)
      const allowed = await ask()
      if (!(allowed instanceof Allowance)) throw new TypeError('expected to be allowed something')
      expect(await ask(), 'tenants 1401 to 1100').toBe(STEP_MS)
      await giveTokens(database, queue, 'tenant 1050', 1)
      allowed.took({
        rows: [{ options: { tenant: 'tenant 1350', expiresUs: null } }],
        nowUs: 0,
      } as unknown as ClaimAnswer)
      allowed.close()
      expect([await ask(), await ask()], 'tenants 1101 to 1000').toEqual([STEP_MS, STEP_MS])
      expect(await ask()).toBeInstanceOf(Allowance)
    }))
})

const STEP_MS = 100
