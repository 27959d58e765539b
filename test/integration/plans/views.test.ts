import pg from 'pg'
import { describe, inject } from 'vitest'
import { listDeadLetters, readDeadLetter } from '../../../src/table/operate/messages/dead-letters.ts'
import { listMessages, listMessagesWithoutPayloads } from '../../../src/table/operate/messages/message-pages.ts'
import { peekMessages, readMessageStatus } from '../../../src/table/operate/messages/message-status.ts'
import { readBacklogs } from '../../../src/table/operate/queues/backlogs.ts'
import { readQueueNames } from '../../../src/table/operate/queues/queue-status.ts'
import { PLAN_BY_INDEX } from '../../../src/table/planner.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { explain, type Recorded, recorded } from '../../support/plans/explain.ts'
import { expectPlanned, load, type Planned } from '../../support/plans/planned.ts'
import { STATISTICS, type Statistics, setStatistics } from '../../support/plans/statistics.ts'
import { test as base } from '../../support/test.ts'

/** In queues of the messages, and one that has only ever had dead letters. */
const BURY = `
INSERT INTO sluice.dead_letter (queue, id, priority, type, schema_version, payload, headers, attempt, reason, enqueued_at, died_at)
SELECT ('{busy,mixed,small.7,gone}'::text[])[1 + n % 4], n, 5, 'type ' || n % 7, 1, '{}', '{}', 20, 'Too many attempts',
       clock_timestamp() - interval '60 days', clock_timestamp() - (n::bigint * 7919 % 2592000) * interval '1 second'
FROM generate_series(1, 300000) n`

const test = base.extend('polled', { scope: 'file' }, async ({ database }, { onCleanup }) => {
  const client = new pg.Client({ connectionString: database.url })
  await client.connect()
  onCleanup(() => client.end())
  await load(client, 0.3)
  await client.query('ALTER TABLE sluice.dead_letter SET (autovacuum_enabled = off)')
  await client.query(BURY)
  const [body] = await database.sql<{ prosrc: string }>(`SELECT prosrc FROM pg_proc WHERE oid = 'sluice.peek'::regproc`)
  return {
    client,
    peek: body!.prosrc.replaceAll('peek.queue', '$1::text').replaceAll('peek.max', '$2::integer'),
    with: async (wanted: Statistics) => {
      await setStatistics(client, wanted)
      await setStatistics(client, wanted, 'sluice.dead_letter')
    },
  }
})

type Polled = Pick<Planned, 'name' | 'ways' | 'buffers'>

const workers = /^(Seq|Index|Index Only) Scan worker(_pkey)?$/
const slot = /^(Seq Scan slot|Index Scan slot_pkey)$/
// Of what workers have in hand, of keys that leases have closed, and of databases.
const closed = /^Index (Only )?Scan message_lease_idx$/
const aside = [workers, slot, closed, /^Seq Scan pg_database$/, /^Sort$/, /^(Index|Index Only) Scan pg_database_.*$/]
const byId = /^Index Scan message_pkey$/
// Of one message: as good.
const byIdOnly = [byId, /^Bitmap Index Scan message_pkey$/, /^Bitmap Heap Scan$/]
const due = /^Index (Only )?Scan message_due_idx$/
const slots = /^Index (Only )?Scan message_slot_idx$/
const dead = /^Index (Only )?Scan dead_letter_pkey$/
const died = /^Index (Only )?Scan dead_letter_died_at_idx$/

const few = /^(Seq Scan (claim|queue)|Index (Only )?Scan (claim|queue)_\w+)$/
const retrying = /^Index (Only )?Scan message_retrying_idx$/
// The slots of a queue are 257 rows at most. Failed messages have been updated, so that they are analyzed before they are many.
const heldKeys = /^Bitmap (Index Scan (slot_pkey|message_retrying_idx|message_lease_idx)|Heap Scan)$/
const ofBacklogs = [heldKeys, due, slots, retrying, dead, few, /^Index (Only )?Scan message_pkey$/]

const VIEWS: readonly (Polled & { readonly text: string })[] = [
  {
    name: 'the latest page of sluice.messages',
    text: `SELECT * FROM sluice.messages WHERE queue = 'busy' ORDER BY id DESC LIMIT 50`,
    ways: [byId, ...aside],
    buffers: 200,
  },
  {
    name: 'a later page of sluice.messages, of messages with keys too,',
    text: `SELECT * FROM sluice.messages WHERE queue = 'mixed' AND id < 200000 ORDER BY id DESC LIMIT 50`,
    ways: [byId, ...aside],
    buffers: 400,
  },
  {
    name: 'one message of sluice.messages',
    text: `SELECT * FROM sluice.messages WHERE queue = 'busy' AND id = 4711`,
    ways: [...byIdOnly, ...aside],
    buffers: 100,
  },
  {
    name: 'the latest page of sluice.dead_letters',
    text: `SELECT * FROM sluice.dead_letters WHERE queue = 'gone' ORDER BY died_at DESC, id DESC LIMIT 50`,
    ways: [died],
    buffers: 100,
  },
  {
    name: 'the latest page of sluice.dead_letters, by the time of death alone,',
    text: `SELECT * FROM sluice.dead_letters WHERE queue = 'gone' ORDER BY died_at DESC LIMIT 50`,
    ways: [died],
    buffers: 100,
  },
  {
    name: 'what a scaler asks of sluice.backlogs',
    text: `SELECT due + leased FROM sluice.backlogs WHERE queue = 'busy'`,
    // What may be sorted is the keys that are held: 10,000 at most.
    ways: [...ofBacklogs, ...aside, /^Incremental Sort$/],
    buffers: 12_000,
  },
  {
    name: 'a queue with keys in sluice.backlogs',
    text: `SELECT * FROM sluice.backlogs WHERE queue = 'mixed'`,
    // What may be sorted is the keys that are held: 10,000 at most.
    ways: [...ofBacklogs, ...aside, /^Incremental Sort$/],
    buffers: 12_000,
  },
]

const PEEKS: readonly (Polled & { readonly queue: string })[] = [
  { name: 'sluice.peek of ten priorities', queue: 'busy', ways: [due, slots, ...byIdOnly, ...aside], buffers: 1_800 },
  // The first hundred of each slot, row by row.
  { name: 'sluice.peek of 256 slots', queue: 'mixed', ways: [due, slots, ...byIdOnly, ...aside], buffers: 28_000 },
]

/** As sluice.operate plans them. */
const BY_INDEX = `SET LOCAL jit = off; ${PLAN_BY_INDEX.text}`
const FILTER = {
  queue: null,
  ids: null,
  type: null,
  tenant: null,
  diedBefore: Date.now() * 1_000,
  diedAfter: null,
  reason: null,
  error: null,
}
const ALL = { orderingKey: null, type: null, tenant: null, state: null, held: null, minAttempts: 0 }
const PAGE = { order: 'newest', after: null, limit: 50 } as const
const messages = [byId, slots, died, /^Index (Only )?Scan message_pkey$/, ...byIdOnly, ...aside]

/** In microseconds: half of the dead letters died before. */
const MONTH_HALF = { us: String((Date.now() - 15 * 86_400_000) * 1_000), id: '1' }

/** As sluice.operate sends them. */
const OPERATIONS: readonly (Polled & { readonly send: (execute: Execute) => Promise<unknown> })[] = [
  {
    name: 'a page of all dead letters',
    send: (execute) => listDeadLetters(execute, FILTER, { limit: 50 }),
    ways: [died, /^Sort$/],
    buffers: 400,
  },
  {
    name: 'a later page of all dead letters',
    send: (execute) => listDeadLetters(execute, FILTER, { limit: 50, after: MONTH_HALF }),
    ways: [died, /^Sort$/],
    buffers: 400,
  },
  {
    name: 'a page of dead letters of one queue',
    send: (execute) => listDeadLetters(execute, { ...FILTER, queue: 'gone' }, { limit: 50 }),
    ways: [died, /^Sort$/],
    buffers: 100,
  },
  {
    name: 'a later page of dead letters of one queue',
    send: (execute) => listDeadLetters(execute, { ...FILTER, queue: 'gone' }, { limit: 50, after: MONTH_HALF }),
    ways: [died, /^Sort$/],
    buffers: 100,
  },
  {
    name: 'one dead letter',
    send: (execute) => readDeadLetter(execute, 'gone', '4711'),
    ways: [/^(Index|Bitmap Index) Scan dead_letter_pkey$/, /^Bitmap Heap Scan$/],
    buffers: 20,
  },
  {
    name: 'all names of queues',
    send: readQueueNames,
    ways: [/^Index (Only )?Scan (message|dead_letter)_pkey$/, died, workers, /^Sort$/],
    buffers: 600,
  },
  {
    name: 'the backlog of a queue',
    send: (execute) => readBacklogs(execute, 'busy'),
    // What may be sorted is the keys that are held: 10,000 at most.
    ways: [...ofBacklogs, ...aside, /^Incremental Sort$/],
    buffers: 12_000,
  },
  {
    name: 'the backlogs of all queues',
    send: (execute) => readBacklogs(execute, null),
    // What is sorted is a row per queue.
    ways: [...ofBacklogs, died, ...aside, /^Incremental Sort$/],
    // Up to 10,000 entries of each queue, and the first of each slot.
    buffers: 150_000,
  },
  {
    name: 'the latest page without payloads',
    send: (execute) => listMessagesWithoutPayloads(execute, { ...ALL, queue: 'busy' }, { ...PAGE, order: 'newest' }),
    ways: messages,
    buffers: 100,
  },
  {
    name: 'one message',
    send: (execute) => readMessageStatus(execute, 'busy', '4711'),
    ways: [...byIdOnly, ...aside],
    buffers: 20,
  },
  ...(['newest', 'oldest'] as const).flatMap((order) => [
    {
      name: `the ${order} page`,
      send: (execute: Execute) => listMessages(execute, { ...ALL, queue: 'busy' }, { ...PAGE, order }),
      ways: messages,
      buffers: 100,
    },
    {
      name: `the ${order} page, from the middle,`,
      send: (execute: Execute) =>
        listMessages(execute, { ...ALL, queue: 'mixed' }, { ...PAGE, order, after: '225000' }),
      ways: messages,
      // The slot of each costs two by its index, and three where the server reads the three pages of that small table.
      buffers: 300,
    },
    {
      name: `the ${order} page of a filter that most messages match`,
      send: (execute: Execute) => listMessages(execute, { ...ALL, queue: 'busy', state: 'ready' }, { ...PAGE, order }),
      ways: messages,
      buffers: 400,
    },
    {
      name: `the ${order} page of a filter that nothing matches`,
      send: (execute: Execute) => listMessages(execute, { ...ALL, queue: 'busy', minAttempts: 1 }, { ...PAGE, order }),
      ways: messages,
      buffers: 600,
    },
    {
      name: `the ${order} page of what earlier messages hold`,
      send: (execute: Execute) => listMessages(execute, { ...ALL, queue: 'mixed', held: true }, { ...PAGE, order }),
      ways: messages,
      // Two or three for the slot of each message that is looked at, and one or two for leases of its key.
      buffers: 50_000,
    },
    {
      name: `the ${order} page of a hot key`,
      send: (execute: Execute) =>
        listMessages(execute, { ...ALL, queue: 'mixed', orderingKey: 'hot' }, { ...PAGE, order }),
      ways: messages,
      buffers: 1_000,
    },
    {
      name: `the ${order} page of a key of few`,
      send: (execute: Execute) =>
        listMessages(execute, { ...ALL, queue: 'mixed', orderingKey: 'key 17' }, { ...PAGE, order }),
      ways: messages,
      // PostgreSQL 14 fetches the rows from the primary key's index one by one: 1,989.
      buffers: inject('serverVersion') < 150_000 ? 2_500 : 500,
    },
    {
      name: `the ${order} page of a hot key with a filter that nothing matches`,
      send: (execute: Execute) =>
        listMessages(execute, { ...ALL, queue: 'mixed', orderingKey: 'hot', type: 'none' }, { ...PAGE, order }),
      ways: messages,
      buffers: 3_000,
    },
  ]),
]

describe.for(STATISTICS)('with 300,000 messages and as many dead letters, %s,', (statistics) => {
  for (const { text, ...view } of VIEWS) {
    test(`${view.name} is read by its index`, async ({ polled }) => {
      await polled.with(statistics)
      await expectBoth(polled.client, view, { statement: { name: view.name, text }, params: [] })
    })
  }

  for (const { queue, ...peek } of PEEKS) {
    test(`${peek.name} reads the first messages of each`, async ({ polled }) => {
      await polled.with(statistics)
      const statement = { name: peek.name, text: polled.peek }
      await expectBoth(polled.client, peek, { statement, params: [queue, 50] })
      const whole = await explain(
        polled.client,
        await recorded((execute) => peekMessages(execute, queue, 50)),
        undefined,
        BY_INDEX,
      )
      expectPlanned({ ...peek, ways: [/^Sort$/] }, whole, 'as sluice.operate sends it')
    })
  }

  for (const { send, ...operation } of OPERATIONS) {
    test(`${operation.name} is read by the index`, async ({ polled }) => {
      await polled.with(statistics)
      const explained = await explain(polled.client, await recorded(send), 'force_custom_plan', BY_INDEX)
      expectPlanned(operation, explained, operation.name)
    })
  }
})

async function expectBoth(client: pg.Client, polled: Polled, statement: Recorded): Promise<void> {
  for (const mode of ['force_custom_plan', 'force_generic_plan'] as const) {
    expectPlanned(polled, await explain(client, statement, mode, 'SET LOCAL jit = off'), mode)
  }
}
