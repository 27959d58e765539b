import { describe, expect } from 'vitest'
import {
  ack,
  type Claims,
  claimScenario,
  commit,
  inOneStep,
  lock,
  look,
  targetsOf,
} from '../support/permutations/claims.ts'
import { expire } from '../support/permutations/lease-ends.ts'
import { leaseAck, leaseRetry, renew } from '../support/permutations/lease-settlements.ts'
import { insertBelow, leaseAtOnce, leased, leasedScenario } from '../support/permutations/leases.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import {
  CLAIM_UNLOCKED,
  KEYED_CLAIM_SKIPPING,
  LEASED_KEYS_CLOSED_ABOVE,
  LEASED_KEYS_OF_SNAPSHOT,
} from '../support/twins/statements.ts'

const transactional = (claims?: Claims) => [look(claims), lock, ack, commit]

describe('leased claims', () => {
  test('beside claims of both modes share the messages without a key', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    const leases = leased()
    for (const [other, interleavings] of [
      [leases, 10],
      [transactional(), 35],
    ] as const) {
      const explored = await explore(stage, claimScenario(stage, unkeyed, 3, { a: leases, b: other }))
      expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
    }
  })

  test('hand out what another has if they do not lock it', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    for (const [sessions, wrong] of [
      [{ a: leased(), b: transactional({ twin: CLAIM_UNLOCKED }) }, 'b claims 1, which a has'],
      [{ a: transactional(), b: leased({ twin: CLAIM_UNLOCKED }) }, 'b claims 1, which is handled'],
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
    const sessions = {
      a: leased({ limit: 1, by: free }),
      // A claim that sees that the message has been moved would leave its key out.
      b: transactional({ twin: [...LEASED_KEYS_OF_SNAPSHOT, ...KEYED_CLAIM_SKIPPING] }),
    }
    const explored = await explore(stage, claimScenario(stage, keyed, 3, sessions))
    expect(wrongs(explored)).not.toEqual([])
  })
})

describe('a claim that looked before a message of a key was leased', () => {
  test('leaves its row unlocked, so that nothing that its holder does waits', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    for (const by of [keyed, free]) {
      const sessions = {
        a: [leaseAtOnce(), inOneStep(renew(), commit), inOneStep(leaseAck(), commit)],
        b: transactional({ limit: 1, by }),
      }
      const explored = await explore(stage, claimScenario(stage, keyed, 2, sessions))
      expect(summary(explored)).toEqual({ interleavings: 35, waited: 0, wrong: [] })
    }
  })
})

describe('a message that appears below a leased one of its key', () => {
  const settles = inOneStep(leaseAck(), commit)
  const givesBack = inOneStep(leaseRetry(-1_000_000), commit)

  test('is claimed by nobody before that is settled', async ({ stage }) => {
    const { keyed: target } = await targetsOf(stage.database)
    for (const end of [settles, givesBack]) {
      for (const other of [leased({ limit: 1 }), [look({ limit: 1 }), lock, inOneStep(ack, commit)]]) {
        const sessions = { late: [insertBelow, commit], a: [end], b: other }
        const explored = await explore(stage, leasedScenario(stage, { target, count: 2, holder: 'a', sessions }))
        expect(summary(explored)).toMatchObject({ interleavings: 60, wrong: [] })
      }
    }
  })

  test('is claimed by nobody while the lease has run out and may be renewed', async ({ stage }) => {
    const { keyed: target } = await targetsOf(stage.database)
    const sessions = {
      late: [inOneStep(insertBelow, commit)],
      a: [inOneStep(renew(), commit), settles],
      b: [leaseAtOnce(), settles],
    }
    const play = { target, count: 1, holder: 'a', since: [expire('a')], sessions }
    const explored = await explore(stage, leasedScenario(stage, play))
    expect(summary(explored)).toMatchObject({ interleavings: 30, wrong: [] })
  })

  test('would be claimed beside it if the key were closed for those above alone', async ({ stage }) => {
    const { keyed: target } = await targetsOf(stage.database)
    const careless = [look({ limit: 1, twin: LEASED_KEYS_CLOSED_ABOVE }), lock, inOneStep(ack, commit)]
    const sessions = { late: [insertBelow, commit], a: [settles], b: careless }
    const explored = await exploreFor(stage, leasedScenario(stage, { target, count: 1, holder: 'a', sessions }), [
      'b claims 2 beside 1',
    ])
    expect(wrongs(explored)).toContain('b claims 2 beside 1')
  })
})
