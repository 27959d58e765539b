import { describe, expect } from 'vitest'
import { deadLetter } from '../../../src/message.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { raise } from '../../support/steps.ts'
import { append, test } from '../../support/streams.ts'
import { waitFor } from '../../support/wait.ts'

const GROUP = '(SELECT id FROM sluice.stream_group WHERE stream = $1)'

async function isNoted(database: TestDatabase, stream: string): Promise<boolean> {
  const sql = `SELECT count(*)::integer AS n FROM sluice.group_queued WHERE group_id = ${GROUP}`
  return (await database.sql(sql, [stream]))[0]?.n !== 0
}

async function noteEmpty(database: TestDatabase, stream: string): Promise<unknown> {
  const sql = `SELECT sluice_private.note_empty(${GROUP}, $1 || ':all') AS noted`
  return (await database.sql(sql, [stream]))[0]?.noted
}

describe('whether the queue of a group may have messages', () => {
  test('is noted when an event fails, and taken back once the queue is empty', async ({ database, sluice, stream }) => {
    await append(database, stream, [[1, 'a']])
    let tries = 0
    sluice
      .pipeline(stream, { group: 'all', retry: { kind: 'fixed', delay: 0 } })
      .handle(async () => {
        tries += 1
        if (tries === 1) raise('once')
        expect(await isNoted(database, stream)).toBe(true)
      })
      .start()
    await waitFor(async () => tries === 2 && !(await isNoted(database, stream)), { what: 'the note of an empty queue' })
  })

  test('cannot be taken back while the queue has messages, or a transaction that puts one there is open', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, [[1, 'a']])
    const pipeline = sluice
      .pipeline(stream, { group: 'all', retry: { kind: 'fixed', delay: '1h' } })
      .handle(() => raise('no'))
    await pipeline.runOnce()
    expect(await noteEmpty(database, stream)).toBe(false)
    await database.sql("DELETE FROM sluice.message WHERE queue = $1 || ':all'", [stream])
    const parker = await database.pool.connect()
    try {
      await parker.query('BEGIN')
      await parker.query(`SELECT sluice_private.note_queued(${GROUP})`, [stream])
      expect(await noteEmpty(database, stream)).toBe(false)
      await parker.query('ROLLBACK')
    } finally {
      parker.release()
    }
    expect(await noteEmpty(database, stream)).toBe(true)
    expect(await isNoted(database, stream)).toBe(false)
  })

  test('is noted by a redrive, also by one whose snapshot has an older note', async ({ database, sluice, stream }) => {
    await append(database, stream, [[1, 'a']])
    await sluice
      .pipeline(stream, { group: 'all' })
      .handle(() => deadLetter('no'))
      .runOnce()
    expect(await isNoted(database, stream)).toBe(false)
    await database.sql(`SELECT sluice_private.note_queued(${GROUP})`, [stream])
    const operator = await database.pool.connect()
    try {
      await operator.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await operator.query('SELECT count(*) FROM sluice.group_queued')
      expect(await noteEmpty(database, stream)).toBe(true)
      await operator.query("SELECT sluice.redrive($1 || ':all')", [stream])
      await operator.query('COMMIT')
    } finally {
      operator.release()
    }
    expect(await isNoted(database, stream)).toBe(true)
  })

  test('is not taken back in a snapshot that may be older than the lock', async ({ database, stream }) => {
    await database.sql(`SELECT sluice_private.note_queued(${GROUP})`, [stream])
    const worker = await database.pool.connect()
    try {
      for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
        await worker.query(`BEGIN ISOLATION LEVEL ${level}`)
        const { rows } = await worker.query(`SELECT sluice_private.note_empty(${GROUP}, $1 || ':all') AS noted`, [
          stream,
        ])
        expect(rows).toEqual([{ noted: false }])
        await worker.query('COMMIT')
      }
    } finally {
      worker.release()
    }
    expect(await noteEmpty(database, stream)).toBe(true)
  })

  test('is not left behind by a group that is deleted while a redrive is open', async ({
    database,
    sluice,
    stream,
  }) => {
    await append(database, stream, [[1, 'a']])
    await sluice
      .pipeline(stream, { group: 'all' })
      .handle(() => deadLetter('no'))
      .runOnce()
    const operator = await database.pool.connect()
    try {
      await operator.query('BEGIN')
      await operator.query("SELECT sluice.redrive($1 || ':all')", [stream])
      const deleted = sluice.operate.groups.delete(stream, 'all')
      const waits = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%delete_group%'`
      await waitFor(async () => (await database.sql(waits)).length === 1, { what: 'the wait for the redrive' })
      await operator.query('COMMIT')
      expect(await deleted).toEqual({ deferred: 1, deadLetters: 0 })
    } finally {
      operator.release()
    }
    expect(await database.sql("SELECT FROM sluice.message WHERE queue = $1 || ':all'", [stream])).toEqual([])
  })

  test('goes with the group', async ({ database, stream }) => {
    await database.sql(`SELECT sluice_private.note_queued(${GROUP})`, [stream])
    const [group] = await database.sql('SELECT id FROM sluice.stream_group WHERE stream = $1', [stream])
    await database.sql("SELECT sluice.delete_group($1, 'all')", [stream])
    expect(await database.sql('SELECT FROM sluice.group_queued WHERE group_id = $1', [group?.id])).toEqual([])
  })
})
