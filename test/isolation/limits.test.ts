import { describe, expect } from 'vitest'
import {
  claims,
  commits,
  givesBack,
  handles,
  leases,
  limitScenario,
  looks,
  renews,
  runOut,
  settles,
  settlesClaim,
  takes,
} from '../support/permutations/limits.ts'
import { explore } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import {
  BUCKET_UNLOCKED,
  PAUSED_PERMITS,
  PERMITS_OF_LEASES,
  PERMITS_UNLOCKED,
  RENEWED_LATE,
} from '../support/twins/functions.ts'

const transactional = [looks, claims, handles]
const undone = [looks, claims, givesBack]
const leased = [looks, leases, settles()]
const object = [takes, commits, settlesClaim]

const ONE = { concurrency: 1 }
/** None falls due again while a test runs. */
const TOKENS = { rate: 2, rate_ms: 3_600_000_000 }

const PAIRS = [
  ['two batches', { a: transactional, b: transactional }, 10],
  ['a batch and one that rolls back', { a: transactional, b: undone }, 20],
  ['a batch and a lease', { a: transactional, b: leased }, 20],
  ['two leases', { a: leased, b: leased }, 10],
  ['a batch and a claim of the function', { a: transactional, b: object }, 20],
  ['a lease and a claim of the function', { a: leased, b: object }, 20],
  ['two claims of the function', { a: object, b: object }, 10],
] as const

describe('a limit of messages in flight', () => {
  for (const [what, sessions, interleavings] of PAIRS) {
    test(`is never passed by ${what}, who wait for nobody`, async ({ stage }) => {
      await using _ = await edited(stage.database, [PAUSED_PERMITS])
      for (const concurrency of [1, 2]) {
        const explored = await explore(stage, limitScenario(stage, { concurrency }, sessions))
        expect(summary(explored)).toEqual({ interleavings, waited: 0, wrong: [] })
      }
    })
  }

  for (const [what, claim, interleavings] of [
    ['a batch', transactional, 60],
    ['another lease', [looks, leases], 30],
    ['a claim of the function', [takes, commits], 30],
  ] as const) {
    test(`is not passed by ${what} beside a lease that runs out, is renewed and settled`, async ({ stage }) => {
      await using _ = await edited(stage.database, [PAUSED_PERMITS])
      const sessions = { clock: [runOut('h')], h: [renews('h'), settles()], claim }
      const explored = await explore(stage, limitScenario(stage, ONE, sessions, 'h'))
      expect(summary(explored)).toMatchObject({ interleavings, wrong: [] })
    })
  }

  test('is passed if the lease in a permit does not count', async ({ stage }) => {
    await using _ = await edited(stage.database, [PAUSED_PERMITS, PERMITS_OF_LEASES])
    const explored = await explore(stage, limitScenario(stage, ONE, { a: [looks, claims], b: [looks, leases] }))
    expect(wrongs(explored)).toContain('2 of 1 in flight')
  })

  test('is passed if permits are not locked', async ({ stage }) => {
    await using _ = await edited(stage.database, [PAUSED_PERMITS, PERMITS_UNLOCKED])
    const explored = await explore(stage, limitScenario(stage, ONE, { a: [looks, claims], b: [looks, claims] }))
    expect(wrongs(explored)).toContain('2 of 1 in flight')
  })

  test('is passed if a lease is renewed that has run out', async ({ stage }) => {
    await using _ = await edited(stage.database, [PAUSED_PERMITS, RENEWED_LATE])
    const sessions = { clock: [runOut('h')], h: [renews('h')], b: [looks, leases] }
    const explored = await explore(stage, limitScenario(stage, ONE, sessions, 'h'))
    expect(wrongs(explored)).toContain('2 of 1 in flight')
  })
})

describe('a rate', () => {
  test('lets no more begin than there are tokens, and nobody wait for them', async ({ stage }) => {
    const begins = [takes, commits]
    const sessions = { a: begins, b: begins, c: begins }
    const explored = await explore(stage, limitScenario(stage, TOKENS, sessions))
    expect(summary(explored)).toEqual({ interleavings: 15, waited: 0, wrong: [] })
  })

  test('makes claims wait, and lets too many begin, if they do not lock the bucket', async ({ stage }) => {
    await using _ = await edited(stage.database, [BUCKET_UNLOCKED])
    const sessions = { a: [takes, commits], b: [takes, commits] }
    const explored = await explore(stage, limitScenario(stage, TOKENS, sessions))
    expect(explored.waited).toBeGreaterThan(0)
    expect(wrongs(explored)).toContain('3 of 2 have begun')
  })
})
