import { expect } from 'vitest'
import { explore, type PlayedStep, type Scenario } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { type Stage, test } from '../support/permutations/stage.ts'

interface World {
  readonly queue: string
  readonly popped: string[]
}

const pops: PlayedStep<World> = {
  name: 'pops',
  run: async (session, { queue, popped }) => {
    await session.begin()
    const { rows } = await session.client.query<{ id: string }>('SELECT id FROM sluice.pop($1, 1)', [queue])
    popped.push(...rows.map(({ id }) => id))
  },
}

const commits: PlayedStep<World> = { name: 'commits', run: (session) => session.commit() }

/** Broken on purpose: it takes a message without locking its row. */
const looks: PlayedStep<World> = {
  name: 'looks',
  run: async (session, { queue, popped }) => {
    await session.begin()
    const first = 'SELECT id FROM sluice.message WHERE queue = $1 ORDER BY id LIMIT 1'
    const { rows } = await session.client.query<{ id: string }>(first, [queue])
    popped.push(...rows.map(({ id }) => id))
  },
}

function twoMessages(stage: Stage, sessions: Scenario<World>['sessions']): Scenario<World> {
  return {
    sessions,
    prepare: async (queue) => {
      await stage.database.sql(`SELECT sluice.enqueue($1, n::text::jsonb) FROM generate_series(1, 2) n`, [queue])
      return { queue, popped: [] }
    },
    wrong: async ({ popped }) => (new Set(popped).size === popped.length ? [] : ['a message was popped twice']),
  }
}

test('two sessions never pop the same message', async ({ stage }) => {
  const explored = await explore(stage, twoMessages(stage, { a: [pops, commits], b: [pops, commits] }))
  expect(summary(explored)).toEqual({ interleavings: 6, waited: 0, wrong: [] })
})

test('two sessions pop the same message if one locks no row', async ({ stage }) => {
  const explored = await explore(stage, twoMessages(stage, { a: [pops, commits], b: [looks, commits] }))
  expect(wrongs(explored)).toEqual(['a message was popped twice'])
})
