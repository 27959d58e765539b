import { describe, expect } from 'vitest'
import { commit, type GroupWorld, groupScenario, handle, look, seek } from '../support/permutations/groups.ts'
import { explore, exploreFor } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import type { Rewrite } from '../support/permutations/rewrite.ts'
import { test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'

const member = (limit = 10) => [look({ limit }), handle, commit]

describe('a member of a group beside one that parks', () => {
  const events = { keys: ['k', 'k', 'other', 'k'], bad: true }

  test('parks later events of the key, whenever the first has failed', async ({ stage }) => {
    const sessions = { first: member(1), second: member() }
    const explored = await explore(stage, groupScenario(stage, events, sessions))
    expect(summary(explored)).toEqual({ interleavings: 20, waited: 0, wrong: [] })
  })

  test.for([
    ['for parked keys', askBefore],
    ['whether any may be parked', noteBefore],
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

  test('is undone by the member if it does not wait for the slots', async ({ stage }) => {
    await using _ = await edited(stage.database, [
      { name: 'seek_group', from: 'PERFORM sluice.lock_group(this_group.id, log.slots);', to: '' },
    ])
    const sessions = { member: member(), operator: [seek, commit] }
    const explored = await exploreFor(stage, groupScenario(stage, events, sessions), ['1 was passed'])
    expect(wrongs(explored)).toContain('1 was passed')
  })
})

/** The look at the group's queue is in the snapshot of the statement that locks. */
function askBefore({ stream, group }: GroupWorld): readonly Rewrite[] {
  const keyed = `EXISTS (SELECT FROM sluice.message m WHERE m.queue = '${stream}:g' AND m.slot IS NOT NULL)`
  return [
    {
      statement: `event_lock_${group.streamId}`,
      from: 'AS slots FROM step',
      to: `AS slots, pg_catalog.set_config('twin.keyed', (${keyed})::text, true) FROM step`,
    },
    {
      statement: `event_read_${group.streamId}`,
      from: ') IS NOT NULL ELSE false END AS keyed',
      to: ") IS NULL AND false ELSE false END OR pg_catalog.current_setting('twin.keyed')::boolean AS keyed",
    },
  ]
}

/** The look whether the group's queue may have messages is in that snapshot. */
function noteBefore({ group }: GroupWorld): readonly Rewrite[] {
  const noted = `EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = ${group.groupId})`
  return [
    {
      statement: `event_lock_${group.streamId}`,
      from: 'AS slots FROM step',
      to: `AS slots, pg_catalog.set_config('twin.noted', (${noted})::text, true) FROM step`,
    },
    {
      statement: `event_read_${group.streamId}`,
      from: 'EXISTS (SELECT FROM sluice.group_queued q WHERE q.group_id = $2::integer)',
      to: "pg_catalog.current_setting('twin.noted')::boolean",
    },
  ]
}
