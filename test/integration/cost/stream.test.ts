import { describe, expect } from 'vitest'
import { claimSettings } from '../../../src/table/planner.ts'
import { appendEvents, type EventRow } from '../../../src/table/stream/append.ts'
import { claimEvents, lookAtStableEnds, readRest } from '../../../src/table/stream/claim-events.ts'
import { readStanding } from '../../../src/table/stream/known-group.ts'
import { type PartitionRanges, readEvents, readNextPosition } from '../../../src/table/stream/read-events.ts'
import { moveProgress } from '../../../src/table/stream/settle-events.ts'
import { times } from '../../support/plans/counted.ts'
import type { Explained } from '../../support/plans/explain.ts'
import { EVENTS, FAILED, type LogTarget, type SendOfLog, test } from '../../support/plans/log.ts'
import { expectPlanned } from '../../support/plans/planned.ts'
import { STATISTICS } from '../../support/plans/statistics.ts'

interface Bound {
  readonly what: string
  readonly send: SendOfLog
  /** The group. Default: one in the middle of the events. */
  readonly of?: 'deferred' | 'near'
  /** Of the statements that go at once. */
  readonly name?: string
  /** Buffers, as measured on PostgreSQL 18 with a little to spare. */
  readonly most: number
  /** Each way that may lead to the rows; none where a function has the statement. */
  readonly ways?: readonly RegExp[]
}

const progress = /^Index (Only )?Scan group_progress_pkey$/
const events = /^Index (Only )?Scan event_1_\d_pkey$/
const segments = /^Index (Only )?Scan segment_pkey$/
const deferred = /^Index (Only )?Scan message_(slot|due)_idx$/
const noted = /^Index (Only )?Scan group_queued_idx$/
const evidence = /^Index (Only )?Scan crash_pkey$/

const claim =
  (limit: number, partitions: readonly number[] = [0], enough = limit): SendOfLog =>
  (execute, { queue, stableEnds, ...group }) =>
    claimEvents(execute, group, { queue, partitions, limit, enough, stableEnds })

const ALL_PARTITIONS = Array.from({ length: 16 }, (_, partition) => partition)

const READS: readonly Bound[] = [
  { what: 'a look at the stable ends', send: (execute, group) => lookAtStableEnds(execute, group), most: 6 },
  {
    what: 'the lock of a partition for a batch of 100',
    name: 'event_lock',
    send: claim(100),
    most: 34,
    ways: [progress, events],
  },
  {
    what: 'the lock of a partition whose backlog is known to be deep',
    name: 'event_lock',
    send: claim(100, ALL_PARTITIONS, 1),
    most: 10,
    ways: [progress, events],
  },
  {
    what: 'the lock of all partitions near the head',
    of: 'near',
    name: 'event_lock',
    send: claim(100, ALL_PARTITIONS),
    most: 130,
    ways: [progress, events],
  },
  {
    what: 'the read of 100 events',
    name: 'event_read',
    send: claim(100),
    most: 40,
    ways: [progress, events, noted, deferred],
  },
  {
    what: 'the read of 100 events beside 1,000 deferred ones',
    of: 'deferred',
    name: 'event_read',
    send: claim(100),
    most: 1_700,
    ways: [progress, events, noted, deferred],
  },
  {
    what: 'a look at the rest',
    send: (execute, group) => readRest(execute, group, group.stableEnds),
    most: 145,
    // The sort is of its sixteen partitions.
    ways: [progress, events, segments, /^Sort$/],
  },
  {
    what: 'the standing of a group',
    send: (execute, { queue, ...group }) => readStanding(execute, group, queue),
    most: 9,
    ways: [/^Index Scan stream_group_id_key$/, noted, deferred, evidence],
  },
  { what: 'a page of 100 of all partitions', send: (execute, group) => page(execute, group), most: 450 },
  { what: 'the next position', send: (execute, group) => readNextPosition(execute, ranges(group)), most: 75 },
]

const WRITES: readonly Bound[] = [
  {
    what: 'a move of the progress',
    send: (execute, group) => moveProgress(execute, group, [{ partition: 0, from: group.at, to: group.at + 1_600 }]),
    most: 14,
    // One entry of the primary key.
    ways: [progress, /^Bitmap Index Scan group_progress_pkey$/, /^Bitmap Heap Scan$/, /^Tid Scan group_progress$/],
  },
]

/** Each row is a descent of the primary key, an entry and a row. One row is less than a buffer for each of twenty groups. */
const APPENDS: readonly Bound[] = [
  { what: 'an append', send: (execute) => appendEvents(execute, 'log', [event()]), most: 18 },
  { what: 'an append of 1,000', send: (execute) => appendEvents(execute, 'log', times(1_000, [event()])), most: 5_500 },
]

const BOUNDS = [...READS, ...WRITES, ...APPENDS]

describe('P6: with 64,000 dead rows of progress that a snapshot keeps', () => {
  for (const { what, of, name, send, most } of BOUNDS) {
    test(`${what} touches at most ${most} buffers, as without`, async ({ log }) => {
      for (const target of of === undefined ? [log.clean, log.dead] : [log[of]]) {
        for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
          const explained = await log.explain(send, target, { name, mode })
          expectAtMost(most, explained, `${what} for the group ${target.name}, ${mode}`)
        }
      }
    })
  }
})

describe.for(STATISTICS)('P6: with 200,000 events, %s,', (statistics) => {
  for (const { what, of = 'clean', name, send, most, ways } of BOUNDS) {
    test(`${what} goes by its index and reads little`, async ({ log }) => {
      await log.with(statistics)
      for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
        const explained = await log.explain(send, log[of], { name, mode })
        if (ways === undefined) expectAtMost(most, explained, `${what}, ${mode}`)
        else expectPlanned({ ways, buffers: most }, explained, `${mode} ${claimSettings()}`)
      }
    })
  }
})

test('P6: an append touches no more beside twenty-five groups', async ({ log }) => {
  for (let n = 0; n < 20; n++) await log.client.query('SELECT sluice.create_group($1, $2)', ['log', `more-${n}`])
  for (const { what, send, most } of APPENDS) expectAtMost(most, await log.explain(send, log.clean), what)
})

test('P6: a lock that counts in no order collects a partition in a bitmap, so these gates can fail', async ({
  log,
}) => {
  await log.with('analyzed with 50 rows')
  const found = await log.explain(claim(100), log.clean, {
    name: 'event_lock',
    change: (text) => text.replace('ORDER BY e.position LIMIT', 'LIMIT'),
  })
  expect(found.ways, found.plan).toContain('Bitmap Heap Scan')
})

test('P6: progress that is read from its first row walks the dead ones, so these gates can fail', async ({ log }) => {
  const change = (text: string) => text.replace('ORDER BY p.position DESC', 'ORDER BY p.position')
  const { buffers, plan } = await log.explain(claim(100), log.dead, { name: 'event_lock', change })
  expect(buffers, plan).toBeGreaterThan(200)
})

test('P6: what failed events have left in the queue of their group is walked, until it is noted that this is empty', async ({
  log,
}) => {
  const { failed } = log
  const read = () => log.explain(claim(100), failed, { name: 'event_read' })
  const stand = () => log.explain((execute, { queue, ...group }) => readStanding(execute, group, queue), failed)
  const walked = await read()
  expect(walked.buffers, walked.plan).toBeGreaterThan(FAILED / 2)
  expectAtMost(FAILED, walked, 'a read of 100')
  const note = 'SELECT sluice_private.note_empty($1, $2) AS noted'
  expect((await log.client.query(note, [failed.groupId, failed.queue])).rows).toEqual([{ noted: true }])
  expectAtMost(40, await read(), 'a read of 100 with the note')
  expectAtMost(9, await stand(), 'the standing with the note')
})

function page(execute: Parameters<SendOfLog>[0], group: LogTarget) {
  return readEvents(execute, 'log', ranges(group), { type: null, orderingKey: null, most: 100 })
}

/** From the middle to the end. */
function ranges({ streamId, at }: LogTarget): PartitionRanges {
  return {
    streamId,
    partitions: ALL_PARTITIONS,
    starts: ALL_PARTITIONS.map(() => at),
    ends: ALL_PARTITIONS.map(() => EVENTS),
  }
}

function event(): EventRow {
  return { payload: '{}', orderingKey: null, type: null, schemaVersion: 1, headers: '{}' }
}

function expectAtMost(most: number, { buffers, plan }: Explained, what: string): void {
  expect(buffers, `${what}: expected at most ${most} buffers, received ${buffers}\n${plan}`).toBeLessThanOrEqual(most)
}
