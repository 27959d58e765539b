import { describe, expect } from 'vitest'
import {
  ack,
  type ClaimStep,
  claimScenario,
  commit,
  lock,
  look,
  rollBack,
  targetsOf,
} from '../support/permutations/claims.ts'
import { explore } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { test } from '../support/permutations/stage.ts'

const WITHOUT_LOCK: Rewrite = { statement: 'claim', from: 'FOR UPDATE OF m SKIP LOCKED', to: '' }
const KEYED_WITHOUT_LOCK: Rewrite = { statement: 'claim_slots', from: 'FOR UPDATE OF m', to: '' }

/** An operator deletes the first message by hand. */
const cancel: ClaimStep = {
  name: 'deletes',
  run: async (session, { queue, ids, ledger }) => {
    await session.begin()
    const { rows } = await session.client.query<{ id: string }>(
      'DELETE FROM sluice.message WHERE queue = $1 AND id = $2 RETURNING id::text AS id',
      [queue, ids[0]],
    )
    ledger.moves(
      session.name,
      rows.map(({ id }) => id),
      'cancelled',
    )
  },
}

describe('a claim beside an operator who deletes a message', () => {
  for (const end of [commit, rollBack]) {
    test(`has either handled it or not seen it, when the operator ${end.name}`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const sessions = { operator: [cancel, end], claim: [look(), lock, ack, commit] }
      const without = await explore(stage, claimScenario(stage, unkeyed, 3, sessions))
      // The operator waits for the claim.
      expect(summary(without)).toEqual({ interleavings: 15, waited: 5, wrong: [] })
      const withKey = await explore(stage, claimScenario(stage, keyed, 3, sessions))
      // And the claim, which must not slide past a message, for the operator.
      expect(summary(withKey)).toEqual({ interleavings: 15, waited: 11, wrong: [] })
    })
  }

  test('handles what has been deleted if it does not lock it', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const claim = [look({ twin: [WITHOUT_LOCK, KEYED_WITHOUT_LOCK] }), lock, ack, commit]
    for (const target of [unkeyed, keyed]) {
      const explored = await explore(stage, claimScenario(stage, target, 3, { operator: [cancel, commit], claim }))
      expect(wrongs(explored)).toContain('claim has 1 handled, which was cancelled')
    }
  })
})
