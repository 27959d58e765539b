import { describe, expect } from 'vitest'
import { createHttpHandler } from '../../../src/http.ts'
import { busyWorker, openSession } from '../../support/explain/reasons.ts'
import { serveHttp } from '../../support/http-server.ts'
import { runCli } from '../../support/processes/run-cli.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('while a session has locked the table of messages', () => {
  test('reads of operate end soon, and name the session and what ends it', async ({ database, queue, sluice }) => {
    const { operate } = sluice
    await put(sluice, queue, [1])
    await operate.now()
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    const reads = [
      operate.status(),
      operate.messages.peek(queue),
      operate.messages.list({ queue }),
      operate.queues.backlogs(),
      operate.queues.list(),
    ]
    for (const { status, ...read } of await Promise.allSettled(reads)) {
      expect({ status, ...read }).toMatchObject({ status: 'rejected', reason: { code: 'TABLE_LOCKED' } })
      const { message } = (read as PromiseRejectedResult).reason as Error
      expect(message).toContain('A session has locked table sluice.message (AccessExclusiveLock)')
      expect(message).toContain(`server process ${pid} (by hand`)
      expect(message).toContain(`To end that session: SELECT pg_terminate_backend(${pid});`)
    }
    await session.query('ROLLBACK')
    expect(await operate.messages.peek(queue)).toHaveLength(1)
  })

  test('the command line names it as well, and the doctor first of all', async ({ database, queue }) => {
    const { session, pid } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    const env = { DATABASE_URL: database.url }
    const stderr = expect.stringContaining(`To end that session: SELECT pg_terminate_backend(${pid});`)
    expect(await runCli(['status'], env)).toMatchObject({ code: 1, stdout: '', stderr })
    expect(await runCli(['peek', queue], env)).toMatchObject({ code: 1, stdout: '', stderr })
    expect((await runCli(['doctor'], env)).stdout).toMatch(/^error +locks\.table +table sluice\.message\n/)
    await session.query('ROLLBACK')
  })

  test('a count over HTTP is answered with 503, and does not name it', async ({ database, queue, sluice }) => {
    const server = await serveHttp(createHttpHandler(sluice, { authorize: () => true }))
    const { session } = await openSession(database, 'by hand')
    await session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    const answer = await fetch(`${server}/queues/${queue}`)
    expect([answer.status, await answer.json()]).toMatchObject([
      503,
      { code: 'TABLE_LOCKED', detail: 'The queue cannot be reached. Try again' },
    ])
    await session.query('ROLLBACK')
  })

  test('a transaction that is to wait behind it names the session that keeps both waiting', async ({
    database,
    queue,
    sluice,
  }) => {
    await put(sluice, queue, [1])
    const reader = await openSession(database, 'a report')
    await reader.session.query('SELECT FROM sluice.message')
    const altering = await openSession(database, 'a migration')
    const altered = altering.session.query('LOCK TABLE sluice.message IN ACCESS EXCLUSIVE MODE')
    const isWaiting = async () =>
      (await database.sql('SELECT FROM pg_locks WHERE pid = $1 AND NOT granted', [altering.pid])).length > 0
    await waitFor(isWaiting, { what: 'the migration to wait' })
    await expect(sluice.operate.messages.peek(queue)).rejects.toMatchObject({
      code: 'TABLE_LOCKED',
      message: expect.stringContaining(`To end that session: SELECT pg_terminate_backend(${reader.pid});`),
    })
    await reader.session.query('ROLLBACK')
    await altered
    await altering.session.query('ROLLBACK')
  })
})

test('the status of a message whose batch has locked it says when it was due, and of no lease', async ({
  database,
  queue,
  sluice,
}) => {
  const { id, release } = await busyWorker(sluice, queue)
  const { stdout } = await runCli(['message', 'status', queue, id], { DATABASE_URL: database.url })
  expect(stdout).toMatch(/^due +20/m)
  expect(stdout).not.toContain('leased until')
  release()
})
