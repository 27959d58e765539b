import fc from 'fast-check'
import { describe, expect, onTestFinished } from 'vitest'
import { installSqlClock } from '../../faults/environment/sql-clock.ts'
import { hasSqlState, LOCK_NOT_AVAILABLE } from '../../src/basics/errors/sql-state.ts'
import { LastSequence } from '../support/models/last-sequence.ts'
import { drain, type LifeCommand, lifeCommandsOf } from '../support/models/life-commands.ts'
import { LifeModel } from '../support/models/life-model.ts'
import { connect, LifeSystem } from '../support/models/life-system.ts'
import { keysOf } from '../support/rows/claim-session.ts'
import { edited } from '../support/rows/edited-functions.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { test as base } from '../support/test.ts'
import {
  DEDUPE_KEY_KEPT_BY_EXPIRED,
  EXPIRED_HANDED_OUT,
  HOLD_FORGOTTEN,
  HOLD_LEFT_BY_RESCHEDULE,
  LEASE_KEPT_BY_CHANGE,
  OPERATION_UNLOCKED,
} from '../support/twins/functions.ts'

const test = base.extend('clocked', { scope: 'file', auto: true }, async ({ database }) =>
  installSqlClock(database.sql),
)

/** A sequence takes a fifth of a second. What is left of the time goes into shrinking one that failed. */
const RUNS = { seed: 20_261_122, numRuns: 12, interruptAfterTimeLimit: 60_000 }

/** With this seed each twin is found by one of the first sequences; with others by the first hundred, which take a minute. */
const MOST_RUNS = { ...RUNS, seed: 10, numRuns: 200, interruptAfterTimeLimit: 180_000, endOnFailure: true }

const TWINS = [
  ['a cancellation leaves the hold of a key as it was', HOLD_FORGOTTEN],
  ['a message that is rescheduled leaves its hold', HOLD_LEFT_BY_RESCHEDULE],
  ['a change does not end a lease that ran out', LEASE_KEPT_BY_CHANGE],
  ['a message that is cancelled may be in hand', OPERATION_UNLOCKED],
  ['a claim hands out what has expired', EXPIRED_HANDED_OUT],
  ['a message that has expired keeps its dedupe key', DEDUPE_KEY_KEPT_BY_EXPIRED],
] as const

describe('whatever is done to messages while they live', () => {
  test('the tables agree with a model', async ({ database }) => {
    await fc.assert(await agreement(database), RUNS)
  })

  for (const [what, edit] of TWINS) {
    test(`the tables disagree if ${what}`, async ({ database }) => {
      await using _ = await edited(database, [edit])
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
  const last = new LastSequence()
  onTestFinished(() => last[Symbol.asyncDispose]())
  return fc.asyncProperty(
    lifeCommandsOf(
      keys.map(([key]) => key),
      slots,
    ),
    fc.boolean(),
    last.of(async (commands: readonly LifeCommand[], buriesExpired: boolean) => {
      sequences += 1
      const options = { queue: `life.${sequences}`, workerId: sequences, buriesExpired }
      await using system = await LifeSystem.open(connections, options)
      const model = new LifeModel(buriesExpired)
      for (const { run } of commands) await run(model, system)
      await drain(model, system)
    }),
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
