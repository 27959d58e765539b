import { expect } from 'vitest'
import { attentionToInboxes } from '../../../src/operate/status/of-inboxes.ts'
import { attentionToRelays } from '../../../src/operate/status/of-relays.ts'
import { register } from '../../support/rows/operations.ts'
import { test } from '../../support/sluice.ts'

test.for([
  { view: 'relays', said: 'relay' },
  { view: 'inboxes', said: 'inbox' },
])('sluice.$view reads of a heartbeat only what it says of its $said', async ({ view, said }, { database, queue }) => {
  const name = `w.${queue}`
  await register(database, { name, queues: [], alive: true })
  const peer = { system: 'memory', sinceMs: Date.now() }
  const queues = Array.from({ length: 100 }, (_, at) => [`${queue}.${at}`, { acked: at }])
  const statistics = { ...Object.fromEntries(queues), [queue]: { [said]: peer }, [`${queue}.odd`]: said }
  const write = 'UPDATE sluice.worker SET statistics = $2::text::jsonb WHERE name = $1'
  await database.sql(write, [name, JSON.stringify(statistics)])
  expect(await database.sql(`SELECT queue FROM sluice.${view} WHERE worker = $1`, [name])).toEqual([{ queue }])
  const [plan] = await database.sql(
    `EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM sluice.${view} WHERE worker = '${name}'`,
  )
  const read = /"Function Name":"read_peer"[^}]*?"Actual Loops":(\d+)/.exec(JSON.stringify(plan))
  // The odd one is a string that is the name.
  expect(Number(read?.[1])).toBe(2)
})

const PEER = {
  queue: 'orders',
  workerId: '1',
  worker: 'w',
  state: 'unavailable',
  since: new Date(0),
  forMs: 3_600_000,
  error: 'it says so',
  retryAt: new Date(0),
  asOf: new Date(0),
} as const

test.for([
  { what: 'relay', otherEnd: 'destination', cause: 'outage' },
  { what: 'relay', otherEnd: 'destination', cause: 'settings' },
  { what: 'inbox', otherEnd: 'broker', cause: 'outage' },
  { what: 'inbox', otherEnd: 'broker', cause: 'settings' },
  { what: 'inbox', otherEnd: 'database', cause: 'outage' },
  { what: 'inbox', otherEnd: 'database', cause: 'settings' },
] as const)(
  'status and the database advise the same for the $otherEnd of an $what in case of $cause',
  async ({ what, otherEnd, cause }, { database }) => {
    const side = otherEnd === 'database' ? 'database' : 'receiver'
    const [attention] =
      what === 'relay'
        ? attentionToRelays([{ ...PEER, cause, destination: 'nats' }], [])
        : attentionToInboxes([{ ...PEER, cause, receiver: 'nats', side }])
    const rows = await database.sql(
      `SELECT sluice_private.peer_remedy(jsonb_populate_record(NULL::sluice_private.peers, $1), ' WHERE true') AS remedy`,
      [JSON.stringify({ kind: what, side, cause })],
    )
    const view = what === 'relay' ? 'relays' : 'inboxes'
    const hint = attention?.remedy?.replace('npx sluice doctor # ', '')
    expect(rows).toEqual([{ remedy: `SELECT * FROM sluice.${view} WHERE true; -- ${hint}` }])
  },
)
