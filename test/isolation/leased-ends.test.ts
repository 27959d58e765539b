import { describe, expect } from 'vitest'
import {
  ack,
  type ClaimStep,
  commit,
  inOneStep,
  lock,
  look,
  rollBack,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { cancel, expire, rescue } from '../support/permutations/lease-ends.ts'
import { leaseAck, leaseLock, renew } from '../support/permutations/lease-settlements.ts'
import { leaseAtOnce, leased, leasedScenario } from '../support/permutations/leases.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { test } from '../support/permutations/stage.ts'
import {
  ACK_OF_ANY_LEASE,
  RENEWAL_OF_ANY_LEASE,
  RESCUE_OF_ANY_LEASE,
  RESCUE_OPENS_KEY,
} from '../support/twins/statements.ts'

const claims: readonly ClaimStep[] = [look(), lock, inOneStep(ack, commit)]
const handlesOne = inOneStep(take({ limit: 1 }), ack, commit)

/** In transactions of their own. */
const settles = (touch?: Parameters<typeof leaseAck>[0]) => inOneStep(leaseAck(touch), commit)
const renews = (touch?: Parameters<typeof renew>[0]) => inOneStep(renew(touch), commit)
const rescues = (of: string, ...twin: readonly Rewrite[]) => inOneStep(rescue(of, ...twin), commit)

/** A version before 17, where rows are found by their ctids. */
const BY_CTID = 160_000

describe('a rescue of leases', () => {
  test('lets nobody have what another has, and no late settlement remove it', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    for (const [target, other] of [
      [unkeyed, claims],
      [keyed, claims],
      [keyed, leased()],
    ] as const) {
      const sessions = { reaper: [rescue('a'), commit], a: [settles()], b: other }
      const explored = await explore(stage, leasedScenario(stage, { target, count: 2, holder: 'a', sessions }))
      expect(summary(explored)).toMatchObject({ interleavings: 60, wrong: [] })
    }
  })

  test('lets later messages of a key go first if it forgets that the first was leased', async ({ stage }) => {
    const { keyed: target } = await targetsOf(stage.database)
    const sessions = { reaper: [rescues('a', ...RESCUE_OPENS_KEY)], b: claims }
    const explored = await exploreFor(stage, leasedScenario(stage, { target, count: 2, holder: 'a', sessions }), [
      'b claims 2 before 1',
    ])
    expect(wrongs(explored)).toContain('b claims 2 before 1')
  })

  test('beside a renewal and a transaction of its handler ends no lease that these have locked', async ({ stage }) => {
    const { unkeyed: target } = await targetsOf(stage.database)
    const settlesByTransaction = inOneStep(leaseLock(), leaseAck(), commit)
    const sessions = {
      reaper: [rescue('a'), commit],
      renewing: [renew({ of: 'a' }), commit],
      a: [settlesByTransaction],
    }
    const explored = await explore(stage, leasedScenario(stage, { target, count: 2, limit: 2, holder: 'a', sessions }))
    expect(summary(explored)).toMatchObject({ interleavings: 30, wrong: [] })
  })

  test('leaves alone what has run out and somebody else has leased', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const sessions = (...twin: readonly Rewrite[]) => ({
      reaper: [rescue('a', ...twin), commit],
      b: [leaseAtOnce(), settles()],
    })
    for (const target of [unkeyed, keyed]) {
      const play = { target, count: 1, holder: 'a', since: [expire('a')] }
      const explored = await explore(stage, leasedScenario(stage, { ...play, sessions: sessions() }))
      expect(summary(explored)).toMatchObject({ interleavings: 6, wrong: [] })
      const broken = sessions(...RESCUE_OF_ANY_LEASE)
      const careless = await exploreFor(stage, leasedScenario(stage, { ...play, sessions: broken }), [
        'reaper frees 1, which a does not have',
      ])
      expect(wrongs(careless)).toContain('reaper frees 1, which a does not have')
    }
  })
})

describe('a lease that runs out', () => {
  test('is renewed, settled or taken by another, each of which excludes the others', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    for (const [target, count, other] of [
      [unkeyed, 1, handlesOne],
      [unkeyed, 1, leaseAtOnce()],
      [keyed, 2, handlesOne],
      [keyed, 2, leaseAtOnce()],
    ] as const) {
      const sessions = { clock: [expire('a')], a: [renews(), settles()], b: [other, settles({ of: 'b' })] }
      const explored = await explore(stage, leasedScenario(stage, { target, count, holder: 'a', sessions }))
      expect(summary(explored)).toMatchObject({ interleavings: 30, wrong: [] })
    }
  })

  test('is settled and renewed although somebody else has the message if the lease is not compared', async ({
    stage,
  }) => {
    const { unkeyed: target } = await targetsOf(stage.database)
    for (const late of [settles({ twin: ACK_OF_ANY_LEASE }), renews({ twin: RENEWAL_OF_ANY_LEASE })]) {
      const play = { target, count: 1, holder: 'a', since: [expire('a')], sessions: { a: [late], b: [leaseAtOnce()] } }
      expect(wrongs(await explore(stage, leasedScenario(stage, play))).join()).toBe('a still finds 1')
    }
  })

  test('of the same process, which has claimed the message again, settles nothing', async ({ stage }) => {
    const { unkeyed: target } = await targetsOf(stage.database)
    const sessions = { a: [settles()], again: [leaseAtOnce(), settles()] }
    const play = { target, count: 1, holder: 'a', since: [expire('a')], sessions }
    expect(summary(await explore(stage, leasedScenario(stage, play)))).toMatchObject({ interleavings: 3, wrong: [] })
  })
})

describe('a settlement that waits for a renewal', () => {
  const play = { count: 2, holder: 'a', limit: 2 }
  const renewing = [renew({ of: 'a' }), commit]

  test("in a handler's transaction finds its messages, which have been moved", async ({ stage }) => {
    const { unkeyed: target } = await targetsOf(stage.database)
    const sessions = { renewing, a: [leaseLock(), leaseAck(), commit] }
    const explored = await explore(stage, leasedScenario(stage, { ...play, target, sessions }))
    expect(summary(explored)).toEqual({ interleavings: 10, waited: 8, wrong: [] })
  })

  test('takes its messages for lost if it looks at their ctids once', async ({ stage }) => {
    const { unkeyed: target } = await targetsOf(stage.database)
    const sessions = { renewing, a: [leaseAck({ version: BY_CTID }), commit] }
    const explored = await exploreFor(stage, leasedScenario(stage, { ...play, target, sessions }), [
      'a does not find 1',
    ])
    expect(wrongs(explored)).toContain('a does not find 1')
  })
})

describe('an operator who deletes messages', () => {
  for (const end of [commit, rollBack]) {
    test(`and ${end.name}, has either the message or its settlement`, async ({ stage }) => {
      const { unkeyed, keyed } = await targetsOf(stage.database)
      const sessions = { operator: [cancel, end], a: [renews(), settles()], b: [handlesOne] }
      for (const target of [unkeyed, keyed]) {
        const explored = await explore(stage, leasedScenario(stage, { target, count: 2, holder: 'a', sessions }))
        expect(summary(explored)).toMatchObject({ interleavings: 30, wrong: [] })
      }
    })
  }
})
