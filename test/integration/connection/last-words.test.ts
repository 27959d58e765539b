import pg from 'pg'
import { describe, expect, onTestFinished } from 'vitest'
import { migrate } from '../../../src/migrate/migrate.ts'
import { grantRoles } from '../../../src/migrate/roles.ts'
import { raisedFlag } from '../../support/rows/flag.ts'
import { untilEmpty } from '../../support/rows/rows.ts'
import { createTestDatabase } from '../../support/servers/database.ts'
import { LastWords } from '../../support/servers/last-words.ts'
import { test as base, put, startTestSluice } from '../../support/sluice.ts'

/** With what nobody catches, and would end the process. */
const test = base.extend('uncaught', () => {
  const uncaught: unknown[] = []
  process.setUncaughtExceptionCaptureCallback((error) => void uncaught.push(error))
  onTestFinished(() => process.setUncaughtExceptionCaptureCallback(null))
  return uncaught
})

describe('a session that the server ends while its connection says goodbye', () => {
  test('ends a process in which nobody listens', async ({ database, uncaught }) => {
    const words = new LastWords()
    const pool = new pg.Pool(words.connection(database.url))
    await pool.query('SELECT')
    await pool.end()
    await words.closed()
    expect(uncaught).toEqual([expect.objectContaining({ code: '57P01' })])
  })

  test('leaves the process alone, and the stop of a worker of both modes', async ({ database, queue, uncaught }) => {
    const words = new LastWords()
    const sluice = startTestSluice(database, { connection: words.connection(database.url) })
    const leased = `${queue}.leased`
    for (const name of [queue, leased]) await put(sluice, name, [1])
    sluice
      .pipeline(queue)
      .handle((_, { tx }) => tx.query('SELECT').then(() => undefined))
      .subscribe()
    sluice
      .pipeline(leased, { mode: 'leased' })
      .handle((_, { transaction }) => transaction((tx) => tx.query('SELECT')).then(() => undefined))
      .subscribe()
    for (const name of [queue, leased]) {
      await untilEmpty(database, name)
      await raisedFlag(database, name)
    }
    await sluice.stop()
    await words.closed()
    expect(new Set(words.told)).toEqual(new Set(['sluice', 'sluice control', 'sluice listener']))
    expect(uncaught).toEqual([])
  })

  test('leaves those alone who claim, wait for a message, and operate', async ({ database, queue, uncaught }) => {
    const words = new LastWords()
    const sluice = startTestSluice(database, { connection: words.connection(database.url) })
    await put(sluice, queue, [1])
    expect(await sluice.operate.queues.list()).not.toEqual([])
    const claim = await sluice.claim(queue)
    await claim?.settle(claim.messages)
    const waiting = expect(sluice.claim(queue, { wait: '30s' })).rejects.toMatchObject({ code: 'STOPPED' })
    await raisedFlag(database, queue)
    await sluice.stop()
    await waiting
    await words.closed()
    expect(new Set(words.told)).toEqual(new Set(['sluice', 'sluice control', 'sluice listener']))
    expect(uncaught).toEqual([])
  })

  test('leaves a migration what it is, and the roles', async ({ uncaught }) => {
    await using database = await createTestDatabase({ migrated: false })
    const words = new LastWords()
    const connection = words.connection(database.url)
    expect((await migrate(connection)).applied).not.toEqual([])
    expect((await migrate(connection)).applied).toEqual([])
    await grantRoles(connection)
    await words.closed()
    expect(words.told).toHaveLength(3)
    expect(uncaught).toEqual([])
  })
})
