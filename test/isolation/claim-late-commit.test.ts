import { describe, expect } from 'vitest'
import { commit, rollBack, targetsOf } from '../support/permutations/claims.ts'
import { floorScenario, handle, insert, insertAtOnce } from '../support/permutations/floors.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import { CLAIM_ALONE } from '../support/twins/statements.ts'

describe('claims beside an enqueue that commits late', () => {
  for (const end of [commit, rollBack]) {
    test(`take nothing before its commit, and hide nothing of it, when it ${end.name}`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const sessions = { late: [insert(1), end], early: [insertAtOnce(3)], process: [handle(), handle(), handle()] }
      for (const target of [unkeyed, keyed]) {
        const explored = await explore(stage, floorScenario(stage, target, sessions))
        expect(summary(explored)).toEqual({ interleavings: 60, waited: 0, wrong: [] })
      }
    })
  }

  test("overtake it if their slot's floor does not wait for who was running", async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    const broken = handle(...CLAIM_ALONE)
    const sessions = { late: [insert(1), commit], early: [insertAtOnce(3)], process: [broken, broken, broken] }
    const explored = await exploreFor(stage, floorScenario(stage, keyed, sessions), [
      'process claims 4 before 1',
      'the floor hides 1',
    ])
    expect(wrongs(explored)).toEqual(expect.arrayContaining(['process claims 4 before 1', 'the floor hides 1']))
  })
})
