import { describe, expect } from 'vitest'
import { allOf, append, jumpSegment, makeStream, segmentsOf } from '../../support/rows/streams.ts'
import { test as base } from '../../support/servers/logins.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { raise } from '../../support/steps.ts'

let made = 0
const test = base.extend('stream', () => `roles.${++made}`)

describe('with the rights of a role', () => {
  test('a worker drops segments, although it does not own them', async ({ database, login, stream }) => {
    const sluice = startTestSluice(await login('sluice_worker'))
    await makeStream(database, stream)
    await database.sql('UPDATE sluice.stream SET retain_ms = 1 WHERE stream = $1', [stream])
    await append(database, stream, 3)
    await jumpSegment(database, stream)
    await database.sql('SELECT sluice.keep_segments()')
    const before = await segmentsOf(database, stream)
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 1, finished: true })
    expect(await segmentsOf(database, stream)).toEqual(before.slice(1))
  })

  test('it gives up where a batch has the stream open, and keeps no append waiting', async ({
    database,
    login,
    stream,
  }) => {
    const sluice = startTestSluice(await login('sluice_worker'))
    await makeStream(database, stream)
    await database.sql('UPDATE sluice.stream SET retain_ms = 1 WHERE stream = $1', [stream])
    await append(database, stream, 3)
    await jumpSegment(database, stream)
    await database.sql('SELECT sluice.keep_segments()')
    const batch = await database.pool.connect()
    try {
      await batch.query('BEGIN')
      const [table] = await segmentsOf(database, stream)
      await batch.query(`SELECT count(*) FROM ${table?.replace(/_\d+$/, '')}`)
      const pass = sluice.operate.maintain()
      let appended = 0
      let over = false
      const ended = pass.finally(() => {
        over = true
      })
      while (!over) {
        await append(database, stream, 1)
        appended += 1
      }
      expect(await ended).toMatchObject({ segmentsDropped: 0, finished: false })
      expect(appended).toBeGreaterThan(5)
      await batch.query('COMMIT')
    } finally {
      batch.release()
    }
    expect(await sluice.operate.maintain()).toMatchObject({ segmentsDropped: 1 })
  })

  test('a reader reads and looks, and changes nothing', async ({ database, login, stream }) => {
    const sluice = startTestSluice(await login('sluice_reader'))
    await makeStream(database, stream)
    await append(database, stream, 3)
    await database.sql(`SELECT sluice.create_group($1, 'g', '{0}')`, [stream])
    expect(await allOf(sluice.streams.read(stream))).toHaveLength(3)
    const { groups, streams } = sluice
    expect(await groups.list({ stream })).toMatchObject([{ unread: 3 }])
    expect(await streams.list({ stream })).toMatchObject([{ head: 3 }])
    expect(await groups.partitions(stream, 'g')).toHaveLength(16)
    expect(await groups.seek(stream, 'g', 'end', { dryRun: true })).toMatchObject({ events: 0, before: 3 })
    const refused = expect.objectContaining({ code: 'PRIVILEGE_MISSING' })
    await expect(sluice.groups.set(stream, 'other')).rejects.toEqual(refused)
    await expect(groups.seek(stream, 'g', 'end')).rejects.toEqual(refused)
    await expect(streams.trim(stream, 'end')).rejects.toEqual(refused)
    await expect(groups.delete(stream, 'g')).rejects.toEqual(refused)
  })

  test('a worker lets a partition wait for a failed event, and an operator lets it go on', async ({
    database,
    login,
    stream,
  }) => {
    const [worker, operator] = [
      startTestSluice(await login('sluice_worker')),
      startTestSluice(await login('sluice_operator')),
    ]
    const owner = startTestSluice(database)
    await owner.streams.set(stream, { partitions: 1 })
    await owner.groups.set(stream, 'g', { from: 'start', onFailure: 'stop' })
    await append(database, stream, 2)
    const { groups } = operator
    const pipeline = worker.pipeline(stream, { group: 'g', maxAttempts: 1 }).handle(() => raise('no'))
    await pipeline.runOnce()
    expect(await groups.list({ stream })).toMatchObject([{ unread: 2, partitionsStopped: 1 }])
    await expect(worker.operate.groups.retry(stream, 'g')).rejects.toMatchObject({ code: 'PRIVILEGE_MISSING' })
    expect(await groups.retry(stream, 'g')).toBe(1)
    await pipeline.runOnce()
    expect(await groups.skip(stream, 'g', 1)).toBe(true)
    expect(await groups.list({ stream })).toMatchObject([{ unread: 1, dead: 1, partitionsStopped: 0 }])
  })

  test('an operator moves and pauses a group, and cannot make, trim or delete anything', async ({
    database,
    login,
    stream,
  }) => {
    const sluice = startTestSluice(await login('sluice_operator'))
    await makeStream(database, stream)
    await startTestSluice(database).groups.set(stream, 'g', { from: 'start' })
    await append(database, stream, 3)
    const { groups, streams } = sluice
    expect(await groups.seek(stream, 'g', { position: 3 })).toMatchObject({ events: 1, before: 3 })
    expect(await groups.pause(stream, 'g')).toBe(true)
    expect(await groups.resume(stream, 'g')).toBe(true)
    const refused = [
      () => sluice.streams.set(`${stream}.more`),
      () => sluice.groups.set(stream, 'more'),
      () => streams.trim(stream, 'end'),
      () => groups.delete(stream, 'g'),
    ]
    for (const change of refused) {
      await expect(change()).rejects.toMatchObject({
        code: 'PRIVILEGE_MISSING',
        message: expect.stringContaining('GRANT sluice_admin TO'),
      })
    }
  })

  test('an administrator makes, moves, pauses, trims and deletes', async ({ database, login, stream }) => {
    const sluice = startTestSluice(await login('sluice_admin'))
    expect(await sluice.streams.set(stream)).toBe(true)
    await append(database, stream, 3)
    const { groups, streams } = sluice
    expect(await sluice.groups.set(stream, 'g', { from: 'start', deferLimit: 3, keepUnread: true })).toBe(true)
    expect(await groups.seek(stream, 'g', { position: 3 })).toMatchObject({ events: 1, before: 3 })
    expect(await groups.pause(stream, 'g')).toBe(true)
    expect(await groups.resume(stream, 'g')).toBe(true)
    expect(await streams.trim(stream, { position: 3 })).toMatchObject({ trimmedTo: 2 })
    expect(await groups.delete(stream, 'g')).toEqual({ deferred: 0, deadLetters: 0 })
  })
})
