import { describe, expect } from 'vitest'
import { explore, type PlayedStep, type Scenario } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { type Stage, test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { APPENDS_UNLOCKED } from '../support/twins/functions.ts'

/** A stream of one partition, and what a reader of it has read behind its progress, which never goes back. */
interface StreamWorld {
  readonly stream: string
  /** Where its stable part ended when the play began. */
  readonly start: number
  readonly read: number[]
  progress: number
  stableEnd: number
}

type StreamStep = PlayedStep<StreamWorld>

const append = (count: number): StreamStep => ({
  name: `appends ${count}`,
  run: async (session, { stream }) => {
    if (session.client.getTransactionStatus() === 'I') await session.begin()
    await session.client.query(
      `SELECT sluice.append_many($1, (SELECT jsonb_agg(n) FROM generate_series(1, $2::integer) n))`,
      [stream, count],
    )
  },
})

const undo: StreamStep = {
  name: 'undoes an append',
  run: async (session, world) => {
    await session.begin()
    await session.client.query('SAVEPOINT a')
    await append(1).run(session, world)
    await session.client.query('ROLLBACK TO a')
  },
}

const commit: StreamStep = { name: 'commits', run: (session) => session.commit() }
const rollBack: StreamStep = { name: 'rolls back', run: (session) => session.rollBack() }

const look: StreamStep = {
  name: 'looks',
  run: async (session, world) => {
    if (session.client.getTransactionStatus() === 'I') await session.begin()
    const { rows } = await session.client.query<{ stableEnd: string }>(STABLE_END, [world.stream])
    world.stableEnd = Number(rows[0]!.stableEnd)
  },
}

const read: StreamStep = {
  name: 'reads',
  run: async (session, world) => {
    const { rows } = await session.client.query<{ position: string }>(READ, [
      world.stream,
      world.progress,
      world.stableEnd,
    ])
    world.read.push(...rows.map(({ position }) => Number(position)))
    world.progress = Math.max(world.progress, world.stableEnd)
    await session.commit()
  },
}

function scenarioOf({ database }: Stage, sessions: Scenario<StreamWorld>['sessions']): Scenario<StreamWorld> {
  return {
    sessions,
    prepare: async () => {
      await database.sql(`SELECT sluice.create_stream('one', 1)`)
      const [row] = await database.sql<{ stableEnd: string }>(STABLE_END, ['one'])
      const start = Number(row?.stableEnd)
      return { stream: 'one', start, read: [], progress: start, stableEnd: start }
    },
    wrong: async ({ stream, start, read: seen, progress }) => {
      const rows = await database.sql<{ position: string }>(READ, [stream, start, 2 ** 50])
      const [end] = await database.sql<{ stableEnd: string }>(STABLE_END, [stream])
      const committed = rows.map(({ position }) => Number(position))
      const passed = committed.filter((position) => position <= progress && !seen.includes(position))
      return [
        ...passed.map((position) => `${position - start} was passed`),
        ...(seen.some((position, at) => position <= (seen[at - 1] ?? 0)) ? [`read ${seen}`] : []),
        ...(committed.some((position) => position > Number(end?.stableEnd)) ? ['not stable at the end'] : []),
      ]
    },
  }
}

const STABLE_END =
  'SELECT (sluice_private.stable_ends(s.id, s.positions))[2] AS "stableEnd" FROM sluice.stream s WHERE s.stream = $1'
const READ = `
SELECT e.position FROM sluice.event e JOIN sluice.stream s ON s.id = e.stream_id
WHERE s.stream = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position`

describe('a reader beside appends', () => {
  test('passes no event, and reads all in order, whenever they commit', async ({ stage }) => {
    const two = { late: [append(2), commit], early: [append(1), commit], reader: [look, read] }
    expect(summary(await explore(stage, scenarioOf(stage, two)))).toEqual({ interleavings: 90, waited: 0, wrong: [] })
    const one = { late: [append(2), append(1), commit], reader: [look, read, look, read] }
    expect(summary(await explore(stage, scenarioOf(stage, one)))).toEqual({ interleavings: 35, waited: 0, wrong: [] })
  })

  test('passes no event behind one that was undone, or beside one that is rolled back', async ({ stage }) => {
    const sessions = { late: [undo, append(1), commit], early: [append(1), rollBack], reader: [look, read] }
    const explored = await explore(stage, scenarioOf(stage, sessions))
    expect(summary(explored)).toEqual({ interleavings: 210, waited: 0, wrong: [] })
  })

  test('passes one if appends take no lock', async ({ stage }) => {
    await using _ = await edited(stage.database, [APPENDS_UNLOCKED])
    const sessions = { late: [append(1), commit], early: [append(1), commit], reader: [look, read] }
    expect(wrongs(await explore(stage, scenarioOf(stage, sessions)))).toContain('1 was passed')
  })
})
