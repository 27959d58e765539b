import { describe, expect } from 'vitest'
import {
  claimAgain,
  commit,
  type EndStep,
  endScenario,
  expire,
  release,
  renew,
  settle,
} from '../support/permutations/claim-ends.ts'
import { explore } from '../support/permutations/permutations.ts'
import { summary } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'

/** Two or three who end the same claim, and what they may be told. */
const ENDINGS: readonly (readonly [what: string, steps: readonly EndStep[], told: readonly string[]])[] = [
  ['settle twice', [settle, settle], ['settle: CLAIM_UNKNOWN, settle: ack ack']],
  ['settle and renew', [settle, renew], ['renew: CLAIM_UNKNOWN, settle: ack ack', 'renew: done, settle: ack ack']],
  ['settle and release', [settle, release], ['release: 0, settle: ack ack', 'release: 2, settle: CLAIM_UNKNOWN']],
  ['renew and release', [renew, release], ['release: 2, renew: CLAIM_UNKNOWN', 'release: 2, renew: done']],
  ['settle and run out', [settle, expire], ['expire: done, settle: CLAIM_OVER', 'expire: done, settle: ack ack']],
  ['renew and run out', [renew, expire], ['expire: done, renew: CLAIM_OVER', 'expire: done, renew: done']],
  ['release and run out', [release, expire], ['expire: done, release: 0', 'expire: done, release: 2']],
]

describe('those who end a claim', () => {
  for (const [what, steps, told] of ENDINGS) {
    for (const keyed of [false, true]) {
      test(`${what}, ${keyed ? 'with' : 'without'} ordering keys: one after the other`, async ({ stage }) => {
        const seen = new Set<string>()
        const sessions = Object.fromEntries(steps.map((step, at) => [String(at), [step, commit]]))
        const explored = await explore(stage, endScenario(stage, keyed, sessions, seen))
        expect(summary(explored)).toMatchObject({ interleavings: 6, wrong: [] })
        expect([...seen].toSorted()).toEqual(told)
      })
    }
  }

  test('settle while the claim runs out and somebody else claims: one of them has the messages', async ({ stage }) => {
    const seen = new Set<string>()
    const sessions = { a: [settle, commit], b: [expire, commit], c: [claimAgain, commit] }
    const explored = await explore(stage, endScenario(stage, true, sessions, seen))
    expect(summary(explored)).toMatchObject({ interleavings: 90, wrong: [] })
    expect([...seen].toSorted()).toEqual([
      'claim: 0, expire: done, settle: CLAIM_OVER',
      'claim: 0, expire: done, settle: ack ack',
      'claim: 2, expire: done, settle: CLAIM_OVER',
    ])
  })
})
