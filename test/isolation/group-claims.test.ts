import { describe, expect } from 'vitest'
import { commit, groupScenario, handle, look, seek } from '../support/permutations/groups.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { SEEK_UNLOCKED } from '../support/twins/functions.ts'
import { KEYS_ASKED_BEFORE_LOCK, QUEUE_ASKED_BEFORE_LOCK } from '../support/twins/statements.ts'

const member = (limit = 10) => [look({ limit }), handle, commit]

describe('a member of a group beside one that defers', () => {
  const events = { keys: ['k', 'k', 'other', 'k'], bad: true }

  test('defers later events of the key, whenever the first has failed', async ({ stage }) => {
    const sessions = { first: member(1), second: member() }
    const explored = await explore(stage, groupScenario(stage, events, sessions))
    expect(summary(explored)).toEqual({ interleavings: 20, waited: 0, wrong: [] })
  })

  test.for([
    ['for deferred keys', KEYS_ASKED_BEFORE_LOCK],
    ['whether any may be deferred', QUEUE_ASKED_BEFORE_LOCK],
  ] as const)('lets them overtake it if it asks %s before it has the lock', async ([, twin], { stage }) => {
    const sessions = { first: member(1), second: [look({ twin }), handle, commit] }
    const explored = await exploreFor(stage, groupScenario(stage, events, sessions), ['2 overtook one of its key'])
    expect(wrongs(explored)).toContain('2 overtook one of its key')
  })
})

describe('a seek to the start beside a member', () => {
  const events = { keys: ['a', 'b', 'c', 'd'], handled: 2 }

  test('has all events read again, also what the member had in hand', async ({ stage }) => {
    const sessions = { member: member(), operator: [seek, commit] }
    const explored = await explore(stage, groupScenario(stage, events, sessions))
    expect(summary(explored)).toMatchObject({ interleavings: 10, wrong: [] })
    expect(explored.waited).toBeGreaterThan(0)
  })

  test('is undone by the member if it does not wait for the partitions', async ({ stage }) => {
    await using _ = await edited(stage.database, [SEEK_UNLOCKED])
    const sessions = { member: member(), operator: [seek, commit] }
    const explored = await exploreFor(stage, groupScenario(stage, events, sessions), ['1 was passed'])
    expect(wrongs(explored)).toContain('1 was passed')
  })
})
