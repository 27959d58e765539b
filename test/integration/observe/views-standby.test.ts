import { expect, onTestFinished, test } from 'vitest'
import { createSluice } from '../../../src/sluice.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { untilRecorded } from '../../support/rows/rows.ts'
import { startStandbyPair } from '../../support/servers/standby-pair.ts'
import { deferred, waitFor } from '../../support/wait.ts'

test('on a hot standby the views and the command line show all but what workers have in hand', async () => {
  const pair = await startStandbyPair()
  const sluice = createSluice({ connection: pair.url, name: 'one' })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  const [handling, go] = [deferred(), deferred()]
  onTestFinished(() => go.resolve())
  sluice
    .pipeline('busy')
    .handle(async () => {
      handling.resolve()
      await go.promise
    })
    .subscribe()
  await sluice.enqueue(sluice.ownTransaction, 'busy', { n: 1 })
  await handling.promise
  await untilRecorded(pair.primary, 'busy', 1)
  await sluice.enqueueMany(sluice.ownTransaction, 'idle', [{ payload: 1 }, { payload: 2, delay: '1h' }])
  await pair.primary.sql(`INSERT INTO sluice.dead_letter (queue, id, priority, schema_version, payload, headers, attempt, reason, enqueued_at)
    VALUES ('idle', 1000, 5, 1, '{}', '{}', 1, 'broken', now())`)
  const isListed = async () =>
    (await pair.primary.sql(`SELECT FROM sluice.worker WHERE 'busy' = ANY (queues)`)).length > 0
  await waitFor(isListed, { what: 'the worker to say what it consumes' })
  await sluice.streams.set('orders')
  await pair.caughtUp()

  const counts = `SELECT queue, ready::integer, scheduled::integer, in_flight::integer, dead::integer, workers::integer
    FROM sluice.queues ORDER BY queue`
  const idle = { queue: 'idle', ready: 1, scheduled: 1, in_flight: 0, dead: 1, workers: 0 }
  const busy = { queue: 'busy', scheduled: 0, dead: 0, workers: 1 }
  expect(await pair.primary.sql(counts)).toEqual([{ ...busy, ready: 0, in_flight: 1 }, idle])
  expect(await pair.standby.sql(counts)).toEqual([{ ...busy, ready: 1, in_flight: 0 }, idle])

  expect(await pair.standby.sql('SELECT name, alive, in_flight FROM sluice.workers')).toEqual([
    { name: 'one', alive: true, in_flight: 0 },
  ])
  expect(await pair.standby.sql('SELECT * FROM sluice.in_flight')).toEqual([])
  expect(await pair.standby.sql('SELECT queue, state, worker FROM sluice.messages ORDER BY queue, state')).toEqual([
    { queue: 'busy', state: 'ready', worker: null },
    { queue: 'idle', state: 'ready', worker: null },
    { queue: 'idle', state: 'scheduled', worker: null },
  ])
  expect(await pair.standby.sql(`SELECT payload FROM sluice.peek('idle')`)).toEqual([{ payload: 1 }, { payload: 2 }])
  expect(await pair.standby.sql('SELECT reason FROM sluice.dead_letters')).toEqual([{ reason: 'broken' }])
  expect(await pair.standby.sql('SELECT stream, events::integer FROM sluice.streams')).toEqual([
    { stream: 'orders', events: 0 },
  ])
  const explained = async (on: typeof pair.primary, call: string) =>
    (await on.sql<{ reason: string }>(`SELECT reason FROM sluice.${call}`)).map(({ reason }) => reason)
  const [{ id }] = (await pair.primary.sql(`SELECT id FROM sluice.messages WHERE queue = 'busy'`)) as [{ id: string }]
  expect(await explained(pair.primary, `explain('busy', ${id})`)).toEqual(['in_flight'])
  expect(await explained(pair.standby, `explain('busy', ${id})`)).toEqual(['not_visible'])
  expect(await explained(pair.standby, `explain_queue('busy')`)).toEqual(['not_visible', 'due_now'])
  expect(await explained(pair.standby, `explain('idle', 999999)`)).toEqual(['never_existed'])
  // It knows of no locks, so it cannot tell which appends are open.
  await expect(pair.standby.sql(`SELECT * FROM sluice_private.stream_stable_ends('orders')`)).rejects.toThrow(
    'expected the primary server',
  )
  const env = { DATABASE_URL: pair.standby.url }
  for (const command of [['status'], ['peek', 'idle'], ['dead', 'list', 'idle']]) {
    expect(await runCli(command, env)).toMatchObject({ code: 0, stderr: '' })
  }
})
