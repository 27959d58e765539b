import fc from 'fast-check'
import { describe, expect } from 'vitest'
import { leaseCommandsOf } from '../support/models/lease-commands.ts'
import { LeaseModel } from '../support/models/lease-model.ts'
import { LeaseSystem } from '../support/models/lease-system.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { keysOf } from '../support/rows/claim-session.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test } from '../support/test.ts'
import {
  ACK_OF_ANY_LEASE,
  LEASED_KEYS_CLOSED_ABOVE,
  LEASED_KEYS_IGNORED,
  LEASES_RUN_OF_KEY,
  RENEWAL_OF_ANY_LEASE,
  RESCUE_OPENS_KEY,
  RETRY_OPENS_KEY,
  RUN_OUT_UNTOLD,
} from '../support/twins/statements.ts'

/** A sequence takes a tenth of a second; the twins are found by the first few. */
const RUNS = { seed: 20_261_122, numRuns: 40, endOnFailure: true }

const TWINS = [
  ['a settlement does not compare its lease', ACK_OF_ANY_LEASE],
  ['a renewal does not compare its lease', RENEWAL_OF_ANY_LEASE],
  ['a rescue opens the keys of what it frees', RESCUE_OPENS_KEY],
  ['a message that is given up opens its key', RETRY_OPENS_KEY],
  ['a transactional claim does not heed closed keys', LEASED_KEYS_IGNORED],
  ['a lease closes its key for the messages above alone', LEASED_KEYS_CLOSED_ABOVE],
  ['a leased claim takes two messages of a key', LEASES_RUN_OF_KEY],
  ['a claim does not say what has run out', RUN_OUT_UNTOLD],
] as const

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
