import { describe, expect } from 'vitest'
import { ack, claimScenario, commit, lock, look, take, targetsOf } from '../support/permutations/claims.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { retry, SETTLEMENTS } from '../support/permutations/settle.ts'
import { test } from '../support/permutations/stage.ts'
import { CLAIM_UNLOCKED, HELD_BY_SNAPSHOT, KEYED_CLAIM_SKIPPING } from '../support/twins/statements.ts'

const HOUR_US = 3_600_000_000

describe('a claim beside a settlement', () => {
  for (const settle of SETTLEMENTS) {
    test(`takes what is left when a batch ${settle.name}, and nothing else`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const sessions = { batch: [take({ limit: 1 }), settle, commit], claim: [look(), lock, ack, commit] }
      for (const target of [unkeyed, keyed]) {
        const explored = await explore(stage, claimScenario(stage, target, 3, sessions))
        expect(summary(explored)).toEqual({ interleavings: 35, waited: 0, wrong: [] })
      }
    })
  }

  test('hands out a message that is to be tried later if it does not lock it', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    const claim = [look({ twin: CLAIM_UNLOCKED }), lock, ack, commit]
    const batch = [take({ limit: 1 }), retry(HOUR_US), commit]
    const explored = await exploreFor(stage, claimScenario(stage, unkeyed, 3, { batch, claim }), [
      'claim claims 1, which is later',
    ])
    expect(wrongs(explored)).toContain('claim claims 1, which is later')
  })

  test("overtakes a held message if it reads its slot's holds by its snapshot", async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    // A claim that sees that the message has been moved would leave its key out.
    const claim = [look({ twin: [...HELD_BY_SNAPSHOT, ...KEYED_CLAIM_SKIPPING] }), lock, ack, commit]
    const batch = [take({ limit: 1 }), retry(HOUR_US), commit]
    const explored = await exploreFor(stage, claimScenario(stage, keyed, 3, { batch, claim }), [
      'claim claims 2 before 1',
    ])
    expect(wrongs(explored)).toContain('claim claims 2 before 1')
  })
})
