import type { Case, Cell } from '../cell.ts'
import { measureWriters } from '../measure/writers.ts'

const TO_RAW_LOG = { contestant: 'raw-log' } as const
const WRITERS = [1, 16]
const writersName = (writers: number) => `${writers} ${writers === 1 ? 'writer' : 'writers'}`

export const streamAppend: Cell = {
  name: 'stream-append',
  title: 'Append, one event per transaction',
  measures:
    'Writers in one process, each with a connection of its own, that repeat BEGIN, one append, COMMIT for 3 seconds, with one group ' +
    'without consumers. By hand: an INSERT into a plain table of the same columns and primary key. pg-boss: publish to one queue',
  metric: { name: 'perSecond', unit: 'transactions/s', better: 'more' },
  cases: WRITERS.map((writers) => appendCase(writersName(writers), { writers, groups: 1 })),
  asks: ({ appends }) => appends !== undefined,
  goals: WRITERS.map((writers) => ({
    of: { contestant: 'sluice', case: writersName(writers) },
    over: { ...TO_RAW_LOG, case: writersName(writers) },
    atLeast: 0.85,
  })),
}

export const streamAppendMany: Cell = {
  name: 'stream-append-many',
  title: 'Append 1,000 events per transaction',
  measures:
    'One writer that repeats BEGIN, 1,000 events by one call, COMMIT for 3 seconds, with one group without consumers. By hand: ' +
    'INSERT … SELECT FROM unnest into a plain table of the same columns and primary key',
  metric: { name: 'perSecond', unit: 'events/s', better: 'more' },
  cases: [appendCase('', { writers: 1, groups: 1, many: 1_000 })],
  asks: ({ appends }) => appends !== undefined,
  without: { 'pg-boss-publish': 'it publishes one by one' },
  goals: [{ of: { contestant: 'sluice' }, over: TO_RAW_LOG, atLeast: 0.85 }],
}

const ONE_GROUP = 'one group'
const TWENTY_GROUPS = '20 groups'

export const streamAppendGroups: Cell = {
  name: 'stream-append-groups',
  title: 'Append for one group and for twenty',
  measures:
    'One writer that repeats BEGIN, one append, COMMIT for 3 seconds, to a stream with one group or with 20, without consumers. ' +
    'pg-boss: publish to one queue or to 20, a copy for each',
  metric: { name: 'perSecond', unit: 'transactions/s', better: 'more' },
  cases: [appendCase(ONE_GROUP, { writers: 1, groups: 1 }), appendCase(TWENTY_GROUPS, { writers: 1, groups: 20 })],
  asks: ({ appends }) => appends !== undefined,
  without: { 'raw-log': 'it has the same INSERT for any number of readers' },
  goals: [
    {
      of: { contestant: 'sluice', case: TWENTY_GROUPS },
      over: { contestant: 'sluice', case: ONE_GROUP },
      // An append does not look at groups; the machine varies by a twentieth.
      atLeast: 0.95,
    },
  ],
}

function appendCase(
  name: string,
  spec: { readonly writers: number; readonly groups: number; readonly many?: number },
): Case {
  return { name, fill: () => ({ messages: 0 }), measure: (context) => measureWriters(context, spec) }
}
