import fc from 'fast-check'
import { describe, expect, onTestFinished } from 'vitest'
import { installSqlClock } from '../../faults/environment/sql-clock.ts'
import { hasSqlState, LOCK_NOT_AVAILABLE } from '../../src/basics/sql-state.ts'
import { drain, lifeCommandsOf } from '../support/models/life-commands.ts'
import { LifeModel } from '../support/models/life-model.ts'
import { connect, LifeSystem } from '../support/models/life-system.ts'
import { keysOf } from '../support/rows/claim-session.ts'
import { type Edit, edited } from '../support/rows/edited-functions.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test as base } from '../support/test.ts'

const test = base.extend('clocked', { scope: 'file', auto: true }, async ({ database }) =>
  installSqlClock(database.sql),
)

/** A sequence takes a fifth of a second. What is left of the time goes into shrinking one that failed. */
const RUNS = { seed: 20_261_122, numRuns: 12, interruptAfterTimeLimit: 60_000 }

/** A twin is found by the first few. */
const MOST_RUNS = { ...RUNS, numRuns: 60, endOnFailure: true }

const TWINS: readonly (readonly [string, readonly Edit[]])[] = [
  [
    'a cancellation leaves the hold of a key as it was',
    [{ name: 'open_key', from: 'IF (sluice.hold_of(gone) ->> 0)::bigint = gone.id THEN', to: 'IF false THEN' }],
  ],
  ['a message that is rescheduled leaves its hold', [{ name: 'set_due', from: 'IF held THEN', to: 'IF false THEN' }]],
  [
    'a change does not end a lease that ran out',
    [{ name: 'end_lease', from: 'IF m.lease <> 0 THEN', to: 'IF false THEN' }],
  ],
  ['a message that is cancelled may be in hand', [{ name: 'lock_one', from: 'FOR UPDATE OF m SKIP LOCKED', to: '' }]],
  [
    'a claim hands out what has expired',
    [{ name: 'sift_locked', from: 'WHERE m.expired OR m.tries', to: 'WHERE m.tries' }],
  ],
  [
    'a message that has expired keeps its dedupe key',
    [{ name: 'look_at_holder', from: 'IF seen.there AND seen.expired THEN', to: 'IF false THEN' }],
  ],
]

describe('whatever is done to messages while they live', () => {
  test('the tables agree with a model', async ({ database }) => {
    await fc.assert(await agreement(database), RUNS)
  })

  for (const [what, edits] of TWINS) {
    test(`the tables disagree if ${what}`, async ({ database }) => {
      await using _ = await edited(database, edits)
      const { errorInstance } = await fc.check(await agreement(database), MOST_RUNS)
      // Or an operator has waited for a batch.
      const isFound = errorInstance instanceof Error && errorInstance.name === 'AssertionError'
      expect(isFound || hasSqlState(errorInstance, LOCK_NOT_AVAILABLE), String(errorInstance)).toBe(true)
    })
  }
})

let sequences = 0

/** Each sequence has a queue, and a worker, of its own. */
async function agreement(database: TestDatabase) {
  const { same, slot, other, otherSlot } = await keysOf(database)
  const keys = [...same.slice(0, 2).map((key) => [key, slot] as const), [other, otherSlot] as const]
  const slots = new Map<string, number>([...keys, ...(await slotsOf(database, ['A', 'B']))])
  const connections = await connect(database)
  onTestFinished(() => connections[Symbol.asyncDispose]())
  return fc.asyncProperty(
    lifeCommandsOf(
      keys.map(([key]) => key),
      slots,
    ),
    fc.boolean(),
    async (commands, buriesExpired) => {
      sequences += 1
      const options = { queue: `life.${sequences}`, workerId: sequences, buriesExpired }
      await using system = await LifeSystem.open(connections, options)
      const model = new LifeModel(buriesExpired)
      for (const { run } of commands) await run(model, system)
      await drain(model, system)
    },
  )
}

/** A dedupe key is an ordering key as well, where a message is to come after another. */
async function slotsOf(
  { sql }: TestDatabase,
  keys: readonly string[],
): Promise<readonly (readonly [string, number])[]> {
  const rows = await sql<{ key: string; slot: number }>(
    `SELECT k.key, (hashtextextended(k.key COLLATE "C", 0) & 255)::integer AS slot FROM unnest($1::text[]) AS k (key)`,
    [keys],
  )
  return rows.map(({ key, slot }) => [key, slot])
}
