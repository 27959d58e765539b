import { describe, expect, onTestFinished, test } from 'vitest'
import type { EmbeddedServer } from '../../faults/environment/embedded-server.ts'
import { createSluice, type Sluice } from '../../src/sluice.ts'
import { EventLog } from '../support/event-log.ts'
import { NO_POLL } from '../support/rows/flag.ts'
import { holdNotifyLock, startServerWithoutStandby } from '../support/servers/notify-lock.ts'
import { type Step, Steps } from '../support/steps.ts'
import { waitFor } from '../support/wait.ts'

const QUEUE = 'q'

interface Session {
  readonly application: string
  readonly pid: number
  readonly waits: boolean
}

describe('while a COMMIT waits for its standby with the lock of NOTIFY', () => {
  test('P5: a worker handles what it finds, and keeps its sessions', async () => {
    const server = await startServerWithoutStandby()
    const steps = new Steps()
    const sluice = consume(server, steps, 100)
    const before = await untilListening(server)
    const log = new EventLog(sluice.events)
    const release = await holdNotifyLock(server)
    for (const payload of [1, 2, 3]) {
      // Unannounced: the enqueue would hang as well.
      await enqueueUnannounced(server, payload)
      expect((await steps.endNext()).payload).toBe(payload)
      // It has lowered its flag and told nobody, and wants to wait again.
      await waitFor(() => log.of('batch.committed').length >= payload, { what: 'the commit' })
    }
    expect(pidsOf(await own(server))).toEqual(pidsOf(before))
    expect(log.of('connection.lost')).toEqual([])
    await release()
  })

  test('P5: a worker that stops waiting tells the others when it can', async () => {
    const server = await startServerWithoutStandby()
    const first = new Steps()
    consume(server, first, 100)
    const [control] = await untilListening(server)
    await waitFor(async () => (await holderOf(server)) === control?.pid, { what: 'the first worker to wait' })
    const second = new Steps()
    consume(server, second, NO_POLL)
    await waitFor(async () => (await server.sql(HAS_TRIED, [control?.pid])).length > 0, { what: 'the second worker' })
    const release = await holdNotifyLock(server)
    const held = await holdFirst(server, first, second)
    // On a busy machine the second may look once more by itself, and raise its own at once.
    await waitFor(async () => (await holderOf(server)) !== control?.pid, { what: 'the flag to be lowered' })
    await release()
    await waitFor(() => holderOf(server), { what: 'the second worker to wait' })
    await server.sql('SELECT sluice.enqueue($1, $2)', [QUEUE, '"for the second"'])
    expect((await second.endNext()).payload).toBe('for the second')
    held.end()
  })

  test('a worker that starts leaves no session behind by listening', async () => {
    const server = await startServerWithoutStandby()
    const release = await holdNotifyLock(server)
    const sluice = consume(server, new Steps(), 1_000)
    const log = new EventLog(sluice.events)
    const listeners = new Set<number>()
    const triedAgain = async () => {
      for (const { application, pid } of await own(server)) if (application === LISTENER) listeners.add(pid)
      return listeners.size >= 4
    }
    await waitFor(triedAgain, { what: 'four attempts to listen', timeoutMs: 60_000 })
    const sessions = await own(server)
    expect(sessions.filter(({ application, waits }) => application === LISTENER && waits)).toEqual([])
    expect(sessions.length).toBeLessThanOrEqual(3)
    expect(log.of('listener.unavailable')).toHaveLength(1)
    await release()
    await log.first('connection.restored')
  })
})

const LISTENER = 'sluice listener'

/** It has looked and sleeps, and found that the other one waits. */
const HAS_TRIED = `
SELECT FROM pg_stat_activity
WHERE application_name = 'sluice control' AND pid <> $1 AND state = 'idle' AND query LIKE '%pg_try_advisory_lock(746501%'`

function consume(server: EmbeddedServer, steps: Steps, pollInterval: number): Sluice {
  const sluice = createSluice({ connection: server.url, pollInterval })
  onTestFinished(() => sluice.stop({ timeout: 0 }))
  sluice.pipeline(QUEUE, { batchSize: 1, concurrency: 1 }).handle(steps.handle).subscribe()
  return sluice
}

/** Until the first has a message. The second may look once more by itself, and take it: then it handles that one. */
async function holdFirst(server: EmbeddedServer, first: Steps, second: Steps): Promise<Step<unknown>> {
  for (let enqueued = 1; ; enqueued++) {
    await enqueueUnannounced(server, 'hold the first')
    const isTaken = () => first.taken.length + second.taken.length === enqueued
    await waitFor(isTaken, { what: 'one of the workers to take the message' })
    if (first.taken.length > 0) return first.next()
    await second.endNext()
  }
}

async function enqueueUnannounced(server: EmbeddedServer, payload: unknown): Promise<void> {
  await server.sql(`
    BEGIN;
    SET LOCAL session_replication_role = replica;
    INSERT INTO sluice.message (queue, payload) VALUES ('${QUEUE}', '${JSON.stringify(payload)}');
    COMMIT`)
}

/** Sessions of workers, but for those of batches. */
function own(server: EmbeddedServer): Promise<Session[]> {
  return server.sql<Session & Record<string, unknown>>(`
    SELECT application_name AS application, pid, wait_event_type = 'Lock' AS waits FROM pg_stat_activity
    WHERE application_name IN ('sluice control', '${LISTENER}') ORDER BY application_name, pid`)
}

function pidsOf(sessions: readonly Session[]): readonly number[] {
  return sessions.map(({ pid }) => pid)
}

/** Resolves when a worker waits to be notified. */
async function untilListening(server: EmbeddedServer): Promise<readonly Session[]> {
  await waitFor(() => holderOf(server), { what: 'a worker to wait' })
  return own(server)
}

async function holderOf(server: EmbeddedServer): Promise<number | undefined> {
  const [row] = await server.sql<{ pid: number }>(
    `SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 746501 AND mode = 'ExclusiveLock' AND granted`,
  )
  return row?.pid
}
