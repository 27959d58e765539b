import { describe, expect } from 'vitest'
import { ack, type ClaimStep, commit, inOneStep, lock, look, targetsOf } from '../support/permutations/claims.ts'
import { leaseAck, leaseBury, leaseRetry } from '../support/permutations/lease-settlements.ts'
import { leased, leasedScenario } from '../support/permutations/leases.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import { RETRY_OPENS_KEY } from '../support/twins/statements.ts'

const HOUR_US = 3_600_000_000
const SETTLEMENTS: readonly ClaimStep[] = [leaseAck(), leaseRetry(HOUR_US), leaseRetry(0), leaseBury()]

const claims: readonly ClaimStep[] = [look(), lock, inOneStep(ack, commit)]

describe('a settlement of a lease', () => {
  for (const settle of SETTLEMENTS) {
    test(`that ${settle.name} leaves the rest to claims of both modes, in order`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      for (const [target, other] of [
        [unkeyed, claims],
        [keyed, claims],
        [keyed, leased()],
      ] as const) {
        const sessions = { a: [settle, commit], b: other }
        const explored = await explore(stage, leasedScenario(stage, { target, count: 3, holder: 'a', sessions }))
        expect(summary(explored)).toMatchObject({ interleavings: 10, wrong: [] })
      }
    })
  }

  test('that gives a message back would let later ones of its key go first if it forgot the lease', async ({
    stage,
  }) => {
    const { keyed: target } = await targetsOf(stage.database)
    const sessions = { a: [leaseRetry(0, { twin: RETRY_OPENS_KEY }), commit], b: claims }
    const explored = await exploreFor(stage, leasedScenario(stage, { target, count: 3, holder: 'a', sessions }), [
      'b claims 2 before 1',
    ])
    expect(wrongs(explored)).toContain('b claims 2 before 1')
  })
})
