import { setImmediate } from 'node:timers/promises'
import { describe, expect, onTestFinished, vi } from 'vitest'
import { executeOn } from '../../../src/connection/open-client.ts'
import { Reaper } from '../../../src/services/reaper.ts'
import { recordEvidence } from '../../../src/table/worker/evidence.ts'
import { pollQueues } from '../../../src/table/worker/wait.ts'
import type { SluiceEvent } from '../../../src/telemetry/events.ts'
import { enqueue } from '../../support/effects.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { PlayedServer } from '../../support/servers/played-server.ts'
import { put, test } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

describe('the reaper', () => {
  test('P4: blames a dead worker for the messages that are still as it claimed them', async ({ database, queue }) => {
    const [acked, retried, left, alone] = await enqueue(database, queue, [1, 2, 3, 4])
    const worker = await deadWorker(database, queue, [[acked!, retried!], [left!]])
    const other = await deadWorker(database, queue, [[alone!]])
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, acked])
    await database.sql('UPDATE sluice.message SET attempt = 1 WHERE queue = $1 AND id = $2', [queue, retried])
    const { reaper, events } = await startReaper(database)
    expect(await reaper.runOnce()).toBe(2)
    expect(events).toEqual([
      { kind: 'worker.crashed', workerId: worker, worker: 'dead', messages: 3 },
      { kind: 'worker.crashed', workerId: other, worker: 'dead', messages: 1 },
    ])
    expect(await evidence(database, queue)).toEqual([
      { message_id: left, worker_id: worker, kind: 'vanished', alone: false },
      { message_id: alone, worker_id: other, kind: 'vanished', alone: true },
    ])
    expect(await reaper.runOnce()).toBe(0)
    expect(await database.sql('SELECT FROM sluice.batch_record WHERE worker_id = ANY ($1)', [[worker, other]])).toEqual(
      [],
    )
  })

  test('P4: blames nobody for the end of the server', async ({ database, queue }) => {
    const ids = await enqueue(database, queue, [1])
    const worker = await deadWorker(database, queue, [ids])
    await database.sql(
      `UPDATE sluice.worker SET server_started_at = server_started_at - interval '1 s' WHERE id = $1`,
      [worker],
    )
    const { reaper, events } = await startReaper(database)
    expect(await reaper.runOnce()).toBe(1)
    expect(events).toEqual([{ kind: 'worker.crashed', workerId: worker, worker: 'dead', messages: 0 }])
    expect(await evidence(database, queue)).toEqual([])
  })

  test('P4: blames nobody in a copy of the database, whose workers live elsewhere', async ({ database, queue }) => {
    const worker = await deadWorker(database, queue, [await enqueue(database, queue, [1])])
    await database.sql(
      `UPDATE sluice.worker SET database_oid = (SELECT oid FROM pg_database WHERE datname = 'template1') WHERE id = $1`,
      [worker],
    )
    const { reaper, events } = await startReaper(database)
    expect(await reaper.runOnce()).toBe(1)
    expect(events).toEqual([{ kind: 'worker.crashed', workerId: worker, worker: 'dead', messages: 0 }])
    expect(await evidence(database, queue)).toEqual([])
  })

  test('lets the living alone, and itself', async ({ database, queue, sluice }) => {
    sluice
      .pipeline(queue)
      .handle(() => new Promise(() => undefined))
      .subscribe()
    await put(sluice, queue, [1])
    const own = await deadWorker(database, queue, [])
    await waitFor(
      async () => (await database.sql('SELECT FROM sluice.in_flight WHERE queue = $1', [queue])).length > 0,
      {
        what: 'a batch in hand',
      },
    )
    const { reaper, events } = await startReaper(database, own)
    await reaper.runOnce()
    expect(events).toEqual([])
    await database.sql('DELETE FROM sluice.worker WHERE id = $1', [own])
  })

  test('P4: ends the leases that a worker has taken while others took it for dead', async ({ database, queue }) => {
    const [id] = await enqueue(database, queue, [1])
    const gone = await deadWorker(database, queue, [[id!]])
    const lease = `SET lease = $2::bigint << 32 | (SELECT id FROM sluice.batch_record WHERE worker_id = $2), due_at = 'tomorrow'`
    await database.sql(`UPDATE sluice.message ${lease} WHERE id = $1`, [id, gone])
    await database.sql('UPDATE sluice.batch_record SET leased = true WHERE worker_id = $1', [gone])
    await database.sql('DELETE FROM sluice.worker WHERE id = $1', [gone])
    const { reaper } = await startReaper(database)
    expect(await reaper.runOnce()).toBe(0)
    expect(await database.sql('SELECT FROM sluice.batch_record WHERE worker_id = $1', [gone])).toEqual([])
    const free = 'SELECT lease FROM sluice.message WHERE id = $1 AND due_at <= clock_timestamp()'
    expect(await database.sql(free, [id])).toEqual([{ lease: null }])
    expect(await evidence(database, queue)).toEqual([])
  })

  test('P4: forgets the evidence about messages that are gone', async ({ database, queue }) => {
    const [gone, stays] = await enqueue(database, queue, [1, 2])
    await deadWorker(database, queue, [[gone!, stays!]])
    const { reaper } = await startReaper(database, 0, 50)
    await reaper.runOnce()
    await database.sql('DELETE FROM sluice.message WHERE queue = $1 AND id = $2', [queue, gone])
    reaper.start()
    await waitFor(async () => (await evidence(database, queue)).length === 1, { what: 'the evidence to be forgotten' })
    expect(await evidence(database, queue)).toMatchObject([{ message_id: stays }])
  })

  test('P4: evidence of a hung handler says whether it had the process to itself', async ({ database, queue }) => {
    const [a, b, c] = await enqueue(database, queue, [1, 2, 3])
    const worker = await deadWorker(database, queue, [])
    const execute = executeOn(database.pool)
    const left = (batchId: number, messageIds: string[]) => ({ workerId: worker, batchId, queue, messageIds })
    await recordEvidence(execute, 'hung', { ...left(1, [a!]), alone: true })
    await recordEvidence(execute, 'hung', { ...left(2, [b!, c!]), alone: false })
    expect((await evidence(database, queue)).map(({ kind, alone }) => [kind, alone])).toEqual([
      ['hung', true],
      ['hung', false],
      ['hung', false],
    ])
    await database.sql('DELETE FROM sluice.worker WHERE id = $1', [worker])
  })
})

test('the reaper takes a fiftieth of the time when it is asked before every batch', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const server = new PlayedServer()
  const reaper = new Reaper({ control: { execute: server.execute }, workerId: () => 7, report: () => undefined })
  const pass = async (tookMs: number) => {
    const done = reaper.runIfStale()
    await vi.advanceTimersByTimeAsync(tookMs)
    ;(await server.next()).answer([])
    await done
  }
  const asksAfter = async (ms: number) => {
    await vi.advanceTimersByTimeAsync(ms)
    const before = server.asked.length
    void reaper.runIfStale()
    return server.asked.length > before
  }
  await pass(2)
  expect(await asksAfter(97)).toBe(false)
  await vi.advanceTimersByTimeAsync(1)
  await pass(100)
  expect(await asksAfter(399)).toBe(false)
  expect(await asksAfter(1)).toBe(true)
})

test('a pass that failed does not count as fresh: the evidence that it would have written is missing', async () => {
  const server = new PlayedServer()
  const reaper = new Reaper({ control: { execute: server.execute }, workerId: () => 7, report: () => undefined })
  const failed = reaper.runIfStale()
  ;(await server.next()).fail()
  await expect(failed).rejects.toThrow('the connection ended')
  const next = reaper.runIfStale()
  expect(server.asked).toHaveLength(2)
  server.asked[1]?.answer([{ id: 9, name: 'dead', messages: 1 }])
  expect(await next).toBe(true)
})

test('a batch waits for the pass of the interval that is under way, and does not take it for one that is over', async () => {
  const server = new PlayedServer()
  const reaper = new Reaper({ control: { execute: server.execute }, workerId: () => 7, report: () => undefined })
  const pass = reaper.runOnce()
  const before = reaper.runIfStale()
  const pending = Symbol('pending')
  expect(await Promise.race([before, setImmediate(pending)])).toBe(pending)
  ;(await server.next()).answer([{ id: 9, name: 'dead', messages: 1 }])
  expect([await pass, await before, server.asked.length]).toEqual([1, true, 1])
})

test('a poll that finds a dead worker is followed by a pass, however recent the last is, but not in doubt', async () => {
  const server = new PlayedServer()
  const reaper = new Reaper({ control: { execute: server.execute }, workerId: () => 7, report: () => undefined })
  const pass = reaper.runOnce()
  ;(await server.next()).answer([])
  await pass
  reaper.lost()
  reaper.polled(true)
  expect(server.asked).toHaveLength(1)
  const other = new Reaper({ control: { execute: server.execute }, workerId: () => 8, report: () => undefined })
  const recent = other.runOnce()
  ;(await server.next()).answer([])
  await recent
  other.polled(true)
  expect(server.asked).toHaveLength(3)
  server.asked[2]?.answer([])
})

test('while polls say that no worker is dead it looks only each half minute, else every second', async () => {
  vi.useFakeTimers()
  onTestFinished(() => void vi.useRealTimers())
  const asked: string[] = []
  const execute = async ({ name }: { readonly name: string }) => {
    asked.push(name)
    return []
  }
  const reaper = new Reaper({ control: { execute }, workerId: () => 7, report: () => undefined })
  expect(reaper.isHurried).toBe(false)
  reaper.hurry()
  onTestFinished(() => reaper.stop())
  expect(reaper.isHurried).toBe(true)
  for (let poll = 0; poll < 20; poll++) {
    reaper.polled(false)
    await vi.advanceTimersByTimeAsync(1_200)
  }
  expect(asked).toEqual([])
  reaper.polled(true)
  expect(asked).toHaveLength(1)
  // The polls have stopped.
  await vi.advanceTimersByTimeAsync(5_500)
  expect(asked.length).toBeGreaterThanOrEqual(4)
  await reaper.stop()
})

describe('the poll', () => {
  test('says that a worker is dead, or has left a batch, only where it is asked', async ({ database, queue }) => {
    const execute = executeOn(database.pool)
    const saysDead = async (dead: boolean) => (await pollQueues(execute, 0, [], { dead })).anyDead
    expect(await saysDead(true)).toBe(false)
    const worker = await deadWorker(database, queue, [['1']])
    expect([await saysDead(true), await saysDead(false)]).toEqual([true, false])
    await database.sql('DELETE FROM sluice.worker WHERE id = $1', [worker])
    expect(await saysDead(true)).toBe(true)
    const { reaper } = await startReaper(database)
    await reaper.runOnce()
    expect(await saysDead(true)).toBe(false)
  })
})

async function startReaper(database: TestDatabase, workerId = 0, intervalMs = 30_000) {
  const events: SluiceEvent[] = []
  const reaper = new Reaper({
    control: { execute: executeOn(database.pool) },
    workerId: () => workerId,
    report: (event) => events.push(event),
    intervalMs,
  })
  onTestFinished(() => reaper.stop())
  return { reaper, events }
}

/** What a worker leaves that has vanished with these batches in hand. */
async function deadWorker(
  database: TestDatabase,
  queue: string,
  batches: readonly (readonly string[])[],
): Promise<number> {
  const [row] = await database.sql<{ id: number }>(
    `INSERT INTO sluice.worker (name, host, pid, version, queues, database_oid)
     SELECT 'dead', 'host', 1, '0', ARRAY[$1], oid FROM pg_database WHERE datname = current_database() RETURNING id`,
    [queue],
  )
  for (const [at, ids] of batches.entries()) {
    await database.sql(
      'INSERT INTO sluice.batch_record (worker_id, id, queue, message_ids, attempts) VALUES ($1, $2, $3, $4, $5)',
      [row!.id, at + 1, queue, ids, ids.map(() => 0)],
    )
  }
  return row!.id
}

function evidence(database: TestDatabase, queue: string) {
  return database.sql(
    'SELECT message_id, worker_id, kind, alone FROM sluice.crash WHERE queue = $1 ORDER BY message_id',
    [queue],
  )
}
