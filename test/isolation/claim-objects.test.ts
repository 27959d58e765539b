import { describe, expect } from 'vitest'
import { claimed, type Pause, pausing } from '../support/permutations/claim-objects.ts'
import { ack, claimScenario, commit, lock, look, targetsOf } from '../support/permutations/claims.ts'
import { leased } from '../support/permutations/leases.ts'
import { explore } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import { CLOSED_KEYS_IGNORED } from '../support/twins/functions.ts'

const transactional = [look({ limit: 1 }), lock, ack, commit]

const OTHERS = [
  ['another claim of the function', claimed, 10],
  ['a leased claim', leased({ limit: 1 }), 20],
  ['a transactional claim', transactional, 35],
] as const

describe('claims by the SQL function', () => {
  for (const [what, other, interleavings] of OTHERS) {
    test(`share the messages without a key with ${what}`, async ({ stage }) => {
      const { unkeyed } = await targetsOf(stage.database)
      await using _ = await pausing(stage.database, 'before the lock')
      const explored = await explore(stage, claimScenario(stage, unkeyed, 3, { a: claimed, b: other }))
      expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
    })

    for (const pause of ['before the lock', 'behind the lock'] satisfies Pause[]) {
      test(`stopped ${pause}, take turns with ${what} of one key`, async ({ stage }) => {
        const { keyed } = await targetsOf(stage.database)
        await using _ = await pausing(stage.database, pause)
        const explored = await explore(stage, claimScenario(stage, keyed, 3, { a: claimed, b: other }))
        expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
      })
    }
  }

  test('would overtake messages of their key if they did not ask which keys are closed', async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    await using _ = await pausing(stage.database, 'before the lock', CLOSED_KEYS_IGNORED)
    const explored = await explore(stage, claimScenario(stage, keyed, 3, { a: claimed, b: claimed }))
    expect(wrongs(explored)).not.toEqual([])
  })
})
