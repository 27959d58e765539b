import { join } from 'node:path'
import { describe, expect } from 'vitest'
import { freePort } from '../../server/free-port.ts'
import { HANDLERS, test } from '../support/processes/work.ts'
import { payloadsOf } from '../support/rows/rows.ts'
import type { TestDatabase } from '../support/servers/database.ts'
import { PROCESS_MS, waitFor } from '../support/wait.ts'

const INBOX = join(HANDLERS, 'inbox.ts')

/** Keeps inboxes from storing, until `release` is called. */
async function whileHeld(
  { pool }: TestDatabase,
  work: (release: () => Promise<unknown>) => Promise<void>,
): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('LOCK TABLE sluice.receipt IN ACCESS EXCLUSIVE MODE')
    await work(() => client.query('COMMIT'))
  } finally {
    client.release(true)
  }
}

/** Until an inbox waits for that. */
async function untilStoring(database: TestDatabase): Promise<void> {
  const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
  await waitFor(async () => (await database.sql(waiting)).length > 0, {
    what: 'an inbox that stores',
    timeoutMs: PROCESS_MS,
  })
}

describe.concurrent('sluice work with inboxes', () => {
  test('receives, beside handlers and alone, until SIGTERM, and tells their counts', async ({ own, start }) => {
    const port = await freePort()
    const { child, exited, says } = start(INBOX, '--health', `127.0.0.1:${port}`)
    await says('receives into jobs \\(memory\\)')
    await says('receives into kept \\(memory\\)')
    await Promise.all(['handles a', 'handles b', 'jobs acks a,b,a', 'kept acks c'].map((words) => says(words)))
    const health = await (await fetch(`http://127.0.0.1:${port}/healthz`)).json()
    expect(health).toMatchObject({
      inboxes: { jobs: { enqueued: 2, duplicates: 1, dead: 0 }, kept: { enqueued: 1, duplicates: 0, dead: 0 } },
    })
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
    await says('SIGTERM: stops receiving and claiming')
    await says('jobs: 2 acked')
    await says('jobs: 2 enqueued, 1 duplicates, 0 dead')
    await says('kept: 1 enqueued, 0 duplicates, 0 dead')
    expect(await payloadsOf(own, 'kept')).toEqual(['c'])
  })

  test('stores and acks at a signal what it has received, and exits with 0', async ({ own, start }) => {
    await whileHeld(own, async (release) => {
      const { child, exited, says } = start(INBOX, '--queue', 'kept')
      await untilStoring(own)
      child.kill('SIGTERM')
      await says('SIGTERM: stops receiving')
      await release()
      expect(await exited).toBe(0)
      await says('kept acks c')
    })
    expect(await payloadsOf(own, 'kept')).toEqual(['c'])
  })

  test('leaves to the broker what it cannot store in time, and exits with 3', async ({ own, start }) => {
    await whileHeld(own, async () => {
      const { child, exited, says, text } = start(INBOX, '--queue', 'kept', '--drain-timeout', '100ms')
      await untilStoring(own)
      child.kill('SIGTERM')
      expect(await exited).toBe(3)
      await says('kept: 0 enqueued')
      expect(text()).not.toContain('acks')
    })
  })

  test('with --once receives what there is, then handles it, and exits with 0', async ({ own, start }) => {
    const { exited, says } = start(INBOX, '--once', '--batch-size', '1')
    expect(await exited).toBe(0)
    await says('handles b')
    await says('jobs: 2 acked')
    await says('jobs: 2 enqueued, 1 duplicates, 0 dead')
    expect(await payloadsOf(own, 'jobs')).toEqual([])
    expect(await payloadsOf(own, 'kept')).toEqual(['c'])
  })

  test('without a schema ends with exit code 1, also where it only receives', async ({ own, start }) => {
    await own.sql('DROP SCHEMA sluice CASCADE')
    const { exited, says } = start(INBOX, '--queue', 'kept')
    expect(await exited).toBe(1)
    await says('npx sluice migrate')
  })
})
