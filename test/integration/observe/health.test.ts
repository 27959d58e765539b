import { expect } from 'vitest'
import { createTestDatabase } from '../../support/servers/database.ts'
import { put, startTestSluice, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const nothing = () => undefined

test('a process that consumes nothing is live and ready, also after it has enqueued', async ({ sluice, queue }) => {
  const idle = { live: true, ready: true, status: 'idle', connected: false, listening: false, lastPollMs: null }
  expect(sluice.health()).toEqual(idle)
  await put(sluice, queue, [1])
  expect(sluice.health()).toEqual(idle)
})

test('a worker is ready when it is connected, listens and polls, and after its stop it is not', async ({
  database,
  queue,
}) => {
  const sluice = startTestSluice(database, { pollInterval: '100ms' })
  sluice.pipeline(queue).handle(nothing).start()
  expect(sluice.health()).toMatchObject({ live: true, ready: false, status: 'starting', connected: false })
  await waitFor(() => sluice.health().listening && sluice.health().lastPollMs !== null, { what: 'a poll' })
  expect(sluice.health()).toMatchObject({ live: true, ready: true, status: 'running', connected: true })
  await sluice.stop()
  expect(sluice.health()).toMatchObject({ live: true, ready: false, status: 'stopped', connected: false })
})

test('a worker whose queue is paused, so that it claims nothing, listens too', async ({ sluice, queue }) => {
  await sluice.operate.queues.pause(queue)
  sluice.pipeline(queue).handle(nothing).start()
  await waitFor(() => sluice.health().listening, { what: 'the listener' })
})

test('a worker that drains is not ready, and lives', async ({ sluice, queue, log }) => {
  const gate = Promise.withResolvers<void>()
  await put(sluice, queue, [1])
  const running = sluice
    .pipeline(queue)
    .handle(() => gate.promise)
    .start()
  await log.first('batch.claimed')
  const drained = running.drain()
  expect(sluice.health()).toMatchObject({ live: true, ready: false, status: 'draining', connected: true })
  gate.resolve()
  await drained
  expect(sluice.health()).toMatchObject({ ready: true, status: 'running' })
})

test('a worker that waits for its database lives, and is not ready', async ({ queue, database }) => {
  const sluice = startTestSluice({ ...database, url: 'postgres://nobody@127.0.0.1:1/none' })
  const failed = new Promise((resolve) => {
    sluice.events.subscribe((event) => event.kind === 'connection.failed' && resolve(event))
  })
  sluice.pipeline(queue).handle(nothing).start()
  await failed
  expect(sluice.health()).toMatchObject({ live: true, ready: false, status: 'starting', connected: false })
})

test('a worker whose control connection is lost is not ready until it is restored', async ({
  sluice,
  queue,
  log,
  database,
}) => {
  sluice.pipeline(queue).handle(nothing).start()
  await log.first('pipeline.started')
  const ready: boolean[] = []
  sluice.events.subscribe((event) => event.kind === 'connection.lost' && ready.push(sluice.health().ready))
  await database.sql(
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
     WHERE datname = current_database() AND application_name = 'sluice control'`,
  )
  await log.first('connection.lost')
  expect(ready[0]).toBe(false)
  expect(sluice.health().live).toBe(true)
  await waitFor(() => sluice.health().ready, { what: 'the connection restored' })
})

test('a pipeline that cannot start ends the life of its process, until another of its queue starts', async ({
  queue,
}) => {
  await using bare = await createTestDatabase({ migrated: false })
  const sluice = startTestSluice(bare)
  await expect(sluice.pipeline(queue).handle(nothing).start().ended).rejects.toMatchObject({ code: 'SCHEMA_MISSING' })
  expect(sluice.health()).toMatchObject({ live: false, ready: false, status: 'failed' })
  const again = sluice.pipeline(queue).handle(nothing).start()
  expect(sluice.health()).toMatchObject({ live: true, status: 'starting' })
  await again.ended.catch(nothing)
})
