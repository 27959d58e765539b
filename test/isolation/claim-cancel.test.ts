import { describe, expect } from 'vitest'
import { claimed, pausing } from '../support/permutations/claim-objects.ts'
import {
  ack,
  type ClaimStep,
  claimScenario,
  commit,
  inOneStep,
  lock,
  look,
  rollBack,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { leaseAck, leaseBury, leaseRetry } from '../support/permutations/lease-settlements.ts'
import { leaseAtOnce, leased, leasedScenario, mayFail } from '../support/permutations/leases.ts'
import { cancels, changes, clears, commitsChange, operated } from '../support/permutations/operations.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { SETTLEMENTS } from '../support/permutations/settle.ts'
import { test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { HOLD_FORGOTTEN, OPERATION_WAITING } from '../support/twins/functions.ts'
import { CLAIM_UNLOCKED, KEYED_CLAIM_UNLOCKED } from '../support/twins/statements.ts'

const HOUR_US = 3_600_000_000

const transactional: readonly ClaimStep[] = [look(), lock, ack, commit]
const handlesOne = inOneStep(take({ limit: 1 }), ack, commit)

/** The settlement of a lease waits for an operator who has its message locked, and is short. */
const CLAIMS = [
  ['of a batch', transactional, 15, 0],
  ['under a lease', leased(), 10, 1],
  ['of the function', claimed, 10, 1],
] as const

const OPERATIONS = [
  ['cancels a message', cancels, commit],
  ['cancels a message, and rolls back', cancels, rollBack],
  ['changes a message', changes, commitsChange],
  ['clears the queue', clears, commit],
] as const

describe('an operator beside a claim', () => {
  for (const [what, claim, interleavings, locked] of CLAIMS) {
    for (const [does, operation, end] of OPERATIONS) {
      test(`${what}, who ${does}: one of them has it, and no handler is waited for`, async ({ stage }) => {
        const { unkeyed, keyed } = await targetsOf(stage.database)
        await using _ = await pausing(stage.database, 'before the lock')
        for (const target of [unkeyed, keyed]) {
          const scenario = claimScenario(stage, target, 3, { claim })
          const explored = await explore(stage, operated(stage, scenario, { operator: [operation, end], claim }))
          const waited = operation === clears ? 0 : locked
          expect(wrongs(explored).filter((line) => !mayFail(line))).toEqual([])
          expect(explored).toMatchObject({ interleavings, waited })
        }
      })
    }
  }

  test('would handle what has been cancelled if the claim did not lock it', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const claim = [look({ twin: [...CLAIM_UNLOCKED, ...KEYED_CLAIM_UNLOCKED] }), lock, ack, commit]
    for (const target of [unkeyed, keyed]) {
      const scenario = claimScenario(stage, target, 3, { claim })
      const sessions = { operator: [cancels, commit], claim }
      const explored = await exploreFor(stage, operated(stage, scenario, sessions), [
        'claim has 1 handled, which was cancelled',
      ])
      expect(wrongs(explored)).toContain('claim has 1 handled, which was cancelled')
    }
  })

  test('would wait for the handler if it did not skip what is locked', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    await using _ = await edited(stage.database, [OPERATION_WAITING])
    const scenario = claimScenario(stage, unkeyed, 3, { claim: transactional })
    const sessions = { operator: [cancels, commit], claim: transactional }
    const { waited } = await explore(stage, operated(stage, scenario, sessions))
    expect(waited).toBeGreaterThan(0)
  })
})

describe('an operator who cancels a message beside its settlement', () => {
  for (const settle of SETTLEMENTS) {
    test(`of a batch that ${settle.name} has it cancelled or settled, and its key is free`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const batch = [take({ limit: 1 }), settle, commit]
      for (const target of [unkeyed, keyed]) {
        const sessions = { operator: [cancels, commit], batch }
        const explored = await explore(stage, operated(stage, claimScenario(stage, target, 3, { batch }), sessions))
        expect(summary(explored)).toEqual({ interleavings: 10, waited: 0, wrong: [] })
      }
    })
  }

  for (const settle of [leaseAck(), leaseRetry(HOUR_US), leaseRetry(0), leaseBury()]) {
    test(`of a lease that ${settle.name} has it cancelled or settled, and its key is free`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const a = [settle, commit]
      for (const target of [unkeyed, keyed]) {
        const scenario = leasedScenario(stage, { target, count: 3, holder: 'a', sessions: { a } })
        const explored = await explore(stage, operated(stage, scenario, { operator: [cancels, commit], a }))
        // The settlement of a lease waits for the operator, who is short.
        expect(summary(explored)).toMatchObject({ interleavings: 6, wrong: [] })
      }
    })
  }

  test('and beside claims of both modes lets each message take effect once', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const others = { transactional: [handlesOne], leased: [leaseAtOnce(), inOneStep(leaseAck(), commit)] }
    for (const target of [unkeyed, keyed]) {
      const scenario = claimScenario(stage, target, 3, others)
      const explored = await explore(stage, operated(stage, scenario, { operator: [cancels, commit], ...others }))
      expect(summary(explored)).toMatchObject({ interleavings: 30, wrong: [] })
    }
  })

  test('leaves the key closed if it forgets the hold', async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    await using _ = await edited(stage.database, [HOLD_FORGOTTEN])
    const batch = [take({ limit: 1 }), SETTLEMENTS[1]!, commit]
    const scenario = claimScenario(stage, keyed, 3, { batch })
    const explored = await explore(stage, operated(stage, scenario, { operator: [cancels, commit], batch }))
    expect(wrongs(explored)).toContain('a sweep has lost 2')
  })
})
