import { describe, expect } from 'vitest'
import { claimed, pausing } from '../support/permutations/claim-objects.ts'
import {
  ack,
  type ClaimStep,
  type Claims,
  claimScenario,
  commit,
  inOneStep,
  lock,
  look,
  type Target,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { leased, mayFail } from '../support/permutations/leases.ts'
import { cancels, holdsAnotherKey, operated, runsNow } from '../support/permutations/operations.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { retry } from '../support/permutations/settle.ts'
import { type Stage, test } from '../support/permutations/stage.ts'
import { idsOf } from '../support/rows/claim-session.ts'
import { KEYED_CLAIM_SKIPPING, NEWER_SLOT_TAKEN } from '../support/twins/statements.ts'

// A claim that looked while a batch had a message, and locks its slot after that message has failed and is due again.

const HOUR_US = 3_600_000_000

const transactional = (claims?: Claims): readonly ClaimStep[] => [look(claims), lock, inOneStep(ack, commit)]

/** How to claim, and from what: the function claims by itself. */
const CLAIMS = [
  ['of a batch', transactional, ['keyed', 'free']],
  ['under a lease', leased, ['keyed', 'free']],
  ['of the function', () => claimed, ['keyed']],
] as const

const OPERATIONS = [
  ['an operator runs it now', retry(HOUR_US), runsNow],
  ['another batch drops its hold, which is over', retry(0), holdsAnotherKey],
  ['an operator cancels it', retry(HOUR_US), cancels],
] as const

function failed(stage: Stage, target: Target, claim: readonly ClaimStep[], [, retries, operation]: Operation) {
  const batch = [take({ limit: 1, by: target }), inOneStep(retries, commit)]
  const sessions = { batch, operator: [inOneStep(operation as ClaimStep, commit)], claim }
  return operated(stage, claimScenario(stage, target, 3, sessions), sessions)
}

type Operation = (typeof OPERATIONS)[number]

describe('a failed message, beside a claim that looked before', () => {
  for (const [what, claim, targets] of CLAIMS) {
    for (const operation of OPERATIONS) {
      test(`${what}, is handled before later ones of its key: ${operation[0]}`, async ({ stage }) => {
        const known = await targetsOf(stage.database)
        await using _ = await pausing(stage.database, 'before the lock')
        for (const target of targets) {
          const explored = await explore(stage, failed(stage, known[target], claim(), operation))
          expect(wrongs(explored).filter((wrong) => !mayFail(wrong))).toEqual([])
          expect(explored.interleavings).toBe(60)
        }
      })
    }
  }

  for (const [what, claim, operation] of [
    ['of a batch', transactional, OPERATIONS[0]],
    ['of a batch', transactional, OPERATIONS[1]],
    ['under a lease', leased, OPERATIONS[0]],
  ] as const) {
    test(`${what}, would be overtaken if it took from a slot that is newer: ${operation[0]}`, async ({ stage }) => {
      const { keyed } = await targetsOf(stage.database)
      // A claim that sees that the message has been moved would leave its key out.
      const careless = claim({ twin: [...NEWER_SLOT_TAKEN, ...KEYED_CLAIM_SKIPPING] })
      const explored = await exploreFor(stage, failed(stage, keyed, careless, operation), ['claim claims 2 before 1'])
      expect(wrongs(explored)).toContain('claim claims 2 before 1')
    })
  }
})

describe('a failed message of a queue that is one sequence', () => {
  for (const operation of OPERATIONS.slice(0, 2)) {
    test(`is handled before later ones: ${operation[0]}`, async ({ stage }) => {
      const { whole } = await targetsOf(stage.database)
      const scenario = failed(stage, whole, transactional(), operation)
      const explored = await explore(stage, {
        ...scenario,
        wrong: async (world) => {
          const taken = idsOf({ rows: world.hands.get('claim') ?? [] })
          const overtaken = taken.length > 0 && taken[0] !== world.ids[0]
          return [...(await scenario.wrong(world)), ...(overtaken ? ['claim claims 2 before 1'] : [])]
        },
      })
      expect(summary(explored)).toMatchObject({ interleavings: 60, wrong: [] })
    })
  }
})
