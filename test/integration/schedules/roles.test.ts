import { describe, expect } from 'vitest'
import { EventLog } from '../../support/event-log.ts'
import { test } from '../../support/servers/logins.ts'
import { startTestSluice } from '../../support/sluice.ts'
import { waitFor } from '../../support/wait.ts'

const REFUSED = { code: '42501' }

describe('schedules with the rights of roles', () => {
  test('are defined by a producer, enqueued by a worker, read by a reader, run by an operator and removed by an administrator', async ({
    database,
    login,
  }) => {
    const [producer, worker, operator, admin, reader] = await Promise.all([
      login('sluice_producer'),
      login('sluice_worker'),
      login('sluice_operator'),
      login('sluice_admin'),
      login('sluice_reader'),
    ])
    const [defines, works, operates, administers] = [producer, worker, operator, admin].map((role) =>
      startTestSluice(role, { pollInterval: '100ms' }),
    )
    const log = new EventLog(works!.events)
    await defines!.schedules.set('nightly', { every: '1d', queue: 'reports', payload: { a: 1 } })
    await database.sql("UPDATE sluice.schedule SET next_at = date_trunc('milliseconds', clock_timestamp())")
    await works!.start()
    expect(await log.first('schedule.fired')).toMatchObject({ schedule: 'nightly', queue: 'reports' })
    await database.sql(`SELECT sluice.schedule('by-sql', 'reports', '{}', cron => '0 3 * * *')`)
    const isPlanned = async () => (await operates!.operate.schedules.get('by-sql'))?.nextAt
    await waitFor(isPlanned, { what: 'the worker to compute the next occurrence' })
    const { schedules } = operates!.operate
    expect(await schedules.pause('nightly')).toBe(true)
    expect(await schedules.resume('nightly')).toBe(true)
    expect(await schedules.runNow('nightly')).toMatch(/^\d+$/)
    await expect(schedules.delete('by-sql')).rejects.toMatchObject({ code: 'PRIVILEGE_MISSING' })
    expect(await administers!.operate.schedules.delete('by-sql')).toBe(true)
    const { rows } = await reader.pool.query('SELECT name, enqueued FROM sluice.schedules')
    expect(rows).toEqual([{ name: 'nightly', enqueued: '2' }])
  })

  test('say who has defined them, and stay within the largest payload, whichever function defines them', async ({
    database,
    login,
  }) => {
    const producer = await login('sluice_producer')
    const given = {
      ...{ name: 'given', queue: 'reports', every_ms: 86_400_000, zone: 'UTC', missed: 'skip', grace_ms: 60_000 },
      ...{ catch_up_most: 1, catch_up_ms: 60_000, overlap: true, payload: {}, headers: {}, schema_version: 1 },
      ...{ priority: 5, changed_by: 'boss', error: 'made up' },
    }
    const define = (changes: object) =>
      producer.sql(
        'SELECT d.outcome FROM sluice_private.schedule_define(jsonb_populate_record(NULL::sluice.schedule, $1)) d',
        [JSON.stringify({ ...given, ...changes })],
      )
    expect(await define({})).toEqual([{ outcome: 'created' }])
    const defined = await database.sql("SELECT changed_by, error FROM sluice.schedules WHERE name = 'given'")
    expect(defined).toEqual([{ changed_by: producer.name, error: null }])
    const large = 'x'.repeat(1_048_576)
    for (const changes of [{ payload: large }, { headers: { large } }]) {
      await expect(define(changes)).rejects.toMatchObject({ code: '22023' })
    }
    await database.sql("SELECT sluice.schedule_delete('given')")
  })

  test('are refused to others: a worker enqueues nothing else, and whoever looks changes nothing', async ({
    login,
  }) => {
    const [producer, worker, reader] = await Promise.all([
      login('sluice_producer'),
      login('sluice_worker'),
      login('sluice_reader'),
    ])
    await expect(worker.pool.query(`SELECT sluice.schedule('w', 'q', '{}', every => '1 h')`)).rejects.toMatchObject(
      REFUSED,
    )
    await expect(worker.pool.query(`UPDATE sluice.schedule SET payload = '{}'`)).rejects.toMatchObject(REFUSED)
    await expect(worker.pool.query(`SELECT sluice.schedule_run_now('nightly')`)).rejects.toMatchObject(REFUSED)
    await expect(producer.pool.query(`SELECT sluice.schedule_delete('nightly')`)).rejects.toMatchObject(REFUSED)
    await expect(producer.pool.query('TABLE sluice.schedules')).rejects.toMatchObject(REFUSED)
    await expect(reader.pool.query(`SELECT sluice.schedule_pause('nightly')`)).rejects.toMatchObject(REFUSED)
    const sluice = startTestSluice(reader)
    await expect(sluice.operate.schedules.runNow('nightly')).rejects.toMatchObject({ code: 'PRIVILEGE_MISSING' })
  })
})
