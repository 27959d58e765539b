import { describe, expect } from 'vitest'
import { hasSqlState } from '../../src/basics/errors/sql-state.ts'
import { explore, exploreFor, type PlayedStep, type Scenario } from '../support/permutations/permutations.ts'
import { summary, wrongs } from '../support/permutations/report.ts'
import { type Stage, test } from '../support/permutations/stage.ts'
import { edited } from '../support/rows/edited-functions.ts'
import { OPEN_SEGMENT_GOES } from '../support/twins/functions.ts'

/** A stream of one partition, and a group that has read nothing of it, for whom nothing is kept. */
interface RetainedWorld {
  readonly stream: string
  /** What has been committed. */
  readonly committed: number[]
  readonly open: number[]
}

type RetainedStep = PlayedStep<RetainedWorld>

const append: RetainedStep = {
  name: 'appends',
  run: async (session, { stream, open }) => {
    if (session.client.getTransactionStatus() === 'I') await session.begin()
    const { rows } = await session.client.query<{ position: string }>("SELECT sluice.append($1, '1') AS position", [
      stream,
    ])
    open.push(Number(rows[0]?.position))
  },
}

const commit: RetainedStep = {
  name: 'commits',
  run: async (session, { committed, open }) => {
    await session.commit()
    committed.push(...open)
  },
}

/** A pass of maintenance, to which every segment is old. */
const pass: RetainedStep = {
  name: 'passes',
  run: async ({ client }, { stream }) => {
    await client.query(AGE, [stream])
    await client.query('SELECT sluice.keep_segments()')
  },
}

/** Drops what has been marked, unless somebody has the stream open. */
const drop: RetainedStep = {
  name: 'drops',
  run: async ({ client }, { stream }) => {
    await client.query(DROP, [stream]).catch((error: unknown) => {
      if (!hasSqlState(error, '55P03')) throw error
    })
  },
}

const AGE = `
UPDATE sluice.segment g SET opened_at = g.opened_at - interval '10 years', closed_at = g.closed_at - interval '10 years'
FROM sluice.stream s WHERE s.stream = $1 AND g.stream_id = s.id`

const DROP = 'SELECT sluice.drop_segment(d.stream_id, d.first) FROM sluice.segments_to_drop() d WHERE d.stream = $1'

function scenarioOf({ database }: Stage, sessions: Scenario<RetainedWorld>['sessions']): Scenario<RetainedWorld> {
  return {
    sessions,
    prepare: async (queue) => {
      const stream = queue.slice(-49).replace(/^[^A-Za-z0-9_]/, '_')
      await database.sql("SELECT sluice.create_stream($1, 1, retain => '1 hour', keep_unread => false)", [stream])
      await database.sql("SELECT sluice.create_group($1, 'g', '{0}')", [stream])
      const [row] = await database.sql<{ position: string }>("SELECT sluice.append($1, '1') AS position", [stream])
      return { stream, committed: [Number(row?.position)], open: [] }
    },
    wrong: async ({ stream, committed }) => {
      const there = await database.sql<{ position: string }>('SELECT position FROM sluice.events($1)', [stream])
      const kept = new Set(there.map(({ position }) => Number(position)))
      const [group] = await database.sql<{ lost_from: string | null; lost_to: string | null }>(
        'SELECT lost_from, lost_to FROM sluice.stream_group WHERE stream = $1',
        [stream],
      )
      // Passes go over all streams.
      await database.sql('DELETE FROM sluice.stream WHERE stream = $1', [stream])
      const [from, to] = [Number(group?.lost_from ?? Number.NaN), Number(group?.lost_to ?? Number.NaN)]
      const isTold = (position: number) => position >= from && position <= to
      return committed.flatMap((position, at) => [
        ...(kept.has(position) || isTold(position) ? [] : [`${at} is gone, and the group does not know`]),
        ...(kept.has(position) && isTold(position) ? [`${at} is there, and the group was told that it is gone`] : []),
      ])
    },
  }
}

describe('an append beside passes of retention', () => {
  const sessions = { producer: [append, append, commit], retention: [pass, pass, pass, drop] }

  test('is kept, or the group hears that it is gone', async ({ stage }) => {
    const explored = await explore(stage, scenarioOf(stage, sessions))
    expect(summary(explored)).toMatchObject({ interleavings: 35, wrong: [] })
  })

  test('goes without a word if a segment may go in which an append is open', async ({ stage }) => {
    await using _ = await edited(stage.database, [OPEN_SEGMENT_GOES])
    const expected = '1 is gone, and the group does not know'
    expect(wrongs(await exploreFor(stage, scenarioOf(stage, sessions), [expected]))).toContain(expected)
  })
})
