import { describe, expect } from 'vitest'
import { ack, type Claims, claimScenario, commit, lock, look, targetsOf } from '../support/permutations/claims.ts'
import { leased } from '../support/permutations/leases.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { test } from '../support/permutations/stage.ts'

const transactional = (claims?: Claims) => [look(claims), lock, ack, commit]

/** A claim that takes the versions of rows that its snapshot has, whoever has them locked or leased since. */
const UNLOCKED: readonly Rewrite[] = ['claim', 'claim_leased', 'claim_leased_by_place'].map((statement) => ({
  statement,
  from: 'FOR UPDATE OF m SKIP LOCKED',
  to: '',
}))

/** The closed keys of a slot as a claim's own snapshot sees them, which is older than its lock. */
const KEYS_OF_SNAPSHOT: readonly Rewrite[] = ['claim_free_slots', 'claim_slots'].map((statement) => ({
  statement,
  from: 'sluice.leased_keys($1::text, locked.slot, candidate.floor_id)',
  to: `(SELECT coalesce(jsonb_object_agg(l.ordering_key, l.id), '{}') FROM sluice.message l
        WHERE l.queue = $1::text AND l.slot = locked.slot AND l.lease IS NOT NULL)`,
}))

describe('leased claims', () => {
  test('beside claims of both modes share the messages without a key', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    for (const [other, interleavings] of [
      [leased(), 20],
      [transactional(), 35],
    ] as const) {
      const explored = await explore(stage, claimScenario(stage, unkeyed, 3, { a: leased(), b: other }))
      expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
    }
  })

  test('hand out what another has if they do not lock it', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    for (const [sessions, wrong] of [
      [{ a: leased(), b: transactional({ twin: UNLOCKED }) }, 'b claims 1, which a has'],
      [{ a: transactional(), b: leased({ twin: UNLOCKED }) }, 'b claims 1, which is handled'],
    ] as const) {
      const explored = await exploreFor(stage, claimScenario(stage, unkeyed, 1, sessions), [wrong])
      expect(wrongs(explored)).toContain(wrong)
    }
  })

  test('beside claims of both modes take turns with those of one key', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    for (const [by, limit] of [
      [keyed, 1],
      [free, 1],
      [keyed, 2],
    ] as const) {
      for (const [other, interleavings] of [
        [leased({ limit, by }), 20],
        [transactional({ limit, by }), 35],
      ] as const) {
        const sessions = { a: leased({ limit, by: free }), b: other }
        const explored = await explore(stage, claimScenario(stage, keyed, 3, sessions))
        expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
      }
    }
  })

  test('would be overtaken if the closed keys were read by the snapshot of the claim', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    const sessions = { a: leased({ limit: 1, by: free }), b: transactional({ limit: 1, twin: KEYS_OF_SNAPSHOT }) }
    const explored = await explore(stage, claimScenario(stage, keyed, 3, sessions))
    expect(wrongs(explored)).not.toEqual([])
  })
})
