import fc from 'fast-check'
import { describe, expect } from 'vitest'
import { leaseCommandsOf } from '../support/models/lease-commands.ts'
import { LeaseModel } from '../support/models/lease-model.ts'
import { LeaseSystem } from '../support/models/lease-system.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { keysOf } from '../support/rows/claim-session.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/test.ts'

/** A sequence takes a tenth of a second; the twins are found by the first few. */
const RUNS = { seed: 20_261_122, numRuns: 60, endOnFailure: true }

const anyLease = (name: string): readonly Rewrite[] =>
  [name, `${name}_by_place`].map((statement) => ({
    statement,
    from: 'm.lease = ($3::bigint[])[pg_catalog.array_position($2::bigint[], m.id)]',
    to: '$3::bigint[] IS NOT NULL',
  }))

const FORGETTING = 'lease = NULL'
const KEEPING = 'lease = CASE WHEN m.slot IS NOT NULL THEN 0 END'

const TWINS: readonly (readonly [string, readonly Rewrite[]])[] = [
  ['a settlement does not compare its lease', anyLease('ack_leased')],
  ['a renewal does not compare its lease', anyLease('renew_leases')],
  ['a rescue opens the keys of what it frees', [{ statement: 'worker_reap', from: KEEPING, to: FORGETTING }]],
  [
    'a message that is given up opens its key',
    ['postpone_leased', 'postpone_leased_by_place'].map((statement) => ({ statement, from: KEEPING, to: FORGETTING })),
  ],
  [
    'a transactional claim does not heed closed keys',
    [
      {
        statement: 'claim_slots',
        from: 'sluice.leased_keys($1::text, locked.slot, candidate.floor_id)',
        to: `'{}'::jsonb`,
      },
    ],
  ],
  [
    'a claim does not say what has run out',
    ['claim', 'claim_slots', 'claim_free_slots'].flatMap((name) =>
      [`${name}_leased`, `${name}_leased_by_place`].map((statement) => ({
        statement,
        from: 'FROM picked p WHERE p.lease > 0',
        to: 'FROM picked p WHERE false',
      })),
    ),
  ],
]

describe('whatever is done to leases', () => {
  test('the tables agree with a model of a hundred lines', async ({ database }) => {
    await fc.assert(await agreement(database), RUNS)
  })

  for (const [what, twin] of TWINS) {
    test(`the tables disagree if ${what}`, async ({ database }) => {
      const { errorInstance } = await fc.check(await agreement(database, twin), RUNS)
      expect(errorInstance).toMatchObject({ name: 'AssertionError' })
    })
  }
})

let sequences = 0

/** Each sequence has a queue, and workers, of its own. */
async function agreement(database: TestDatabase, twin: readonly Rewrite[] = []) {
  const { slot, same, otherSlot, other } = await keysOf(database)
  const slots = new Map([
    [same[0], slot],
    [same[1], slot],
    [other, otherSlot],
  ])
  return fc.asyncProperty(leaseCommandsOf(slots), async (commands) => {
    sequences += 1
    await using system = await LeaseSystem.open(database, {
      queue: `leases.${sequences}`,
      slots: [slot, otherSlot],
      firstWorker: sequences * 1_000,
      twin,
    })
    const model = new LeaseModel([slot, otherSlot])
    for (const { run } of commands) await run(model, system)
  })
}
