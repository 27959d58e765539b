import { describe, expect } from 'vitest'
import {
  ack,
  type ClaimStep,
  type Claims,
  claimScenario,
  commit,
  inOneStep,
  lock,
  look,
  take,
  targetsOf,
} from '../support/permutations/claims.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import {
  CLAIM_UNLOCKED,
  KEYED_CLAIM_SKIPPING,
  SLOT_UNLOCKED,
  WHOLE_QUEUE_WAITING,
} from '../support/twins/statements.ts'

const batch = (claims?: Claims): readonly ClaimStep[] => [look(claims), lock, ack, commit]
describe('claims beside claims', () => {
  test('of messages without a key share them, whatever comes between snapshot and locks', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    const claims = batch()
    const explored = await explore(stage, claimScenario(stage, unkeyed, 3, { a: claims, b: claims }))
    expect(summary(explored)).toEqual({ interleavings: 35, waited: 0, wrong: [] })
  })

  test('of one key take turns', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    for (const [limit, by] of [
      [1, keyed],
      [2, keyed],
      [2, free],
    ] as const) {
      const explored = await explore(
        stage,
        claimScenario(stage, free, 3, { a: batch({ limit }), b: batch({ limit, by }) }),
      )
      expect(summary(explored)).toEqual({ interleavings: 70, waited: 0, wrong: [] })
    }
  })

  test('share and take turns by three as well', async ({ stage }) => {
    const { unkeyed, keyed } = await targetsOf(stage.database)
    const ends = inOneStep(ack, commit)
    const whole = [take({ limit: 1 }), ends]
    const others = { b: whole, c: whole }
    for (const [target, a, interleavings] of [
      [unkeyed, [look({ limit: 1 }), lock, ends], 105],
      [keyed, whole, 15],
    ] as const) {
      const explored = await explore(stage, claimScenario(stage, target, 3, { a, ...others }))
      expect(summary(explored)).toEqual({ interleavings, waited: 0, wrong: [] })
    }
  })

  test('of a queue in order wait for nobody, also beside a pipeline that is in no order', async ({ stage }) => {
    const { unkeyed, keyed, whole } = await targetsOf(stage.database)
    for (const [target, other] of [
      [whole, whole],
      [whole, unkeyed],
      [keyed, unkeyed],
      [keyed, whole],
    ] as const) {
      for (const [limit, ends, interleavings] of [
        [1, [ack, commit], 70],
        [3, [inOneStep(ack, commit)], 20],
      ] as const) {
        const sessions = { a: [look({ limit }), lock, ...ends], b: [look({ limit: 2, by: other }), lock, ...ends] }
        const explored = await explore(stage, claimScenario(stage, target, 3, sessions))
        expect(summary(explored)).toEqual({ interleavings, waited: 0, wrong: [] })
      }
    }
  })

  test('of a queue in order would wait for a pipeline that is in no order if they did not skip', async ({ stage }) => {
    const { unkeyed, whole } = await targetsOf(stage.database)
    const sessions = { a: batch({ twin: WHOLE_QUEUE_WAITING }), b: batch({ by: unkeyed }) }
    const { waited } = await explore(stage, claimScenario(stage, whole, 3, sessions))
    expect(waited).toBeGreaterThan(0)
  })

  test('have the same message twice if they do not lock it', async ({ stage }) => {
    const { unkeyed } = await targetsOf(stage.database)
    const steps = batch({ twin: CLAIM_UNLOCKED })
    const explored = await exploreFor(stage, claimScenario(stage, unkeyed, 3, { a: steps, b: steps }), [
      'a claims 1, which b has',
      '1 is handled twice',
    ])
    expect(wrongs(explored)).toEqual(expect.arrayContaining(['a claims 1, which b has', '1 is handled twice']))
  })

  test('overtake each other if they do not lock their slot, and slide past what is locked', async ({ stage }) => {
    const { keyed } = await targetsOf(stage.database)
    const twin = [...SLOT_UNLOCKED, ...KEYED_CLAIM_SKIPPING]
    const sessions = { a: batch({ limit: 2, twin }), b: batch({ limit: 1, twin }) }
    const explored = await exploreFor(stage, claimScenario(stage, keyed, 3, sessions), ['a claims 2 before 1'])
    expect(wrongs(explored)).toContain('a claims 2 before 1')
  })
})

/** A session that is no batch locks the first message, unless a batch has it. */
const locksFirst: ClaimStep = {
  name: 'locks the first',
  run: async (session, { queue, ids: [id] }) => {
    await session.begin()
    const text = 'SELECT FROM sluice.message WHERE queue = $1 AND id = $2 FOR UPDATE SKIP LOCKED'
    await session.client.query(text, [queue, id])
  },
}

describe('a claim of a key beside a session that locks its first message', () => {
  const stranger = [locksFirst, commit]

  test('takes nothing of the key while it is locked, and waits for nobody', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    for (const target of [keyed, free]) {
      const explored = await explore(stage, claimScenario(stage, target, 3, { a: batch(), stranger }))
      expect(summary(explored)).toEqual({ interleavings: 15, waited: 0, wrong: [] })
    }
  })

  test('takes the second before the first if it only skips it', async ({ stage }) => {
    const { keyed, free } = await targetsOf(stage.database)
    for (const target of [keyed, free]) {
      const a = batch({ twin: KEYED_CLAIM_SKIPPING })
      const explored = await exploreFor(stage, claimScenario(stage, target, 3, { a, stranger }), [
        'a claims 2 before 1',
      ])
      expect(wrongs(explored)).toContain('a claims 2 before 1')
    }
  })
})
