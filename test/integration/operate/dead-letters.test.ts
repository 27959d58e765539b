import { describe, expect } from 'vitest'
import { readClockUs } from '../../../src/table/dates.ts'
import { deleteDeadLetters, redriveDeadLetters } from '../../../src/table/operate/messages/change-dead-letters.ts'
import {
  type DeadLetterMatch,
  listDeadLetters,
  summariseDeadLetters,
} from '../../../src/table/operate/messages/dead-letters.ts'
import type { Execute } from '../../../src/table/statement.ts'
import { bury } from '../../support/rows/operations.ts'
import type { TestDatabase } from '../../support/servers/database.ts'
import { test } from '../../support/test.ts'

const HOUR_US = 3_600_000_000
const ALL: DeadLetterMatch = {
  queue: null,
  ids: null,
  type: null,
  tenant: null,
  diedBefore: null,
  diedAfter: null,
  reason: null,
  error: null,
}

/** Each chooses some of what {@link fill} makes, by name. */
const CASES: readonly {
  readonly name: string
  readonly filter: (made: Made) => Partial<DeadLetterMatch>
  readonly chosen: readonly string[]
}[] = [
  { name: 'nothing', filter: () => ({}), chosen: ['old', 'new', 'untyped', 'elsewhere'] },
  { name: 'a queue', filter: () => ({ queue: 'filtered' }), chosen: ['old', 'new', 'untyped'] },
  { name: 'a type', filter: () => ({ type: 'order.paid' }), chosen: ['old', 'new', 'elsewhere'] },
  { name: 'a tenant', filter: () => ({ tenant: 'acme' }), chosen: ['new'] },
  { name: 'ids', filter: ({ ids }) => ({ ids: [ids.old!, ids.elsewhere!, '1'] }), chosen: ['old', 'elsewhere'] },
  {
    name: 'a part of the reason',
    filter: () => ({ reason: 'MANY att' }),
    chosen: ['old', 'new', 'untyped', 'elsewhere'],
  },
  { name: 'a part of the error', filter: () => ({ error: 'timeout' }), chosen: ['untyped'] },
  { name: 'what no error contains', filter: () => ({ error: '%' }), chosen: [] },
  { name: 'no ids', filter: () => ({ ids: [] }), chosen: [] },
  { name: 'an age', filter: ({ nowUs }) => ({ diedBefore: nowUs - HOUR_US }), chosen: ['old', 'elsewhere'] },
  { name: 'a youth', filter: ({ nowUs }) => ({ diedAfter: nowUs - HOUR_US }), chosen: ['new', 'untyped'] },
  {
    name: 'everything',
    filter: ({ nowUs, ids }) => ({
      queue: 'filtered',
      type: 'order.paid',
      ids: Object.values(ids),
      diedBefore: nowUs - HOUR_US,
      diedAfter: nowUs - 3 * HOUR_US,
    }),
    chosen: ['old'],
  },
]

describe('dead letters', () => {
  test.for(CASES)(
    'chosen by $name are the same to look at, to redrive and to delete',
    async ({ filter, chosen }, { database }) => {
      const execute = executeOn(database)
      for (const change of [redriveDeadLetters, deleteDeadLetters]) {
        const made = await fill(database)
        const wanted = { ...ALL, ...filter(made) }
        const ids = chosen.map((name) => made.ids[name])
        const { deadLetters: listed } = await listDeadLetters(execute, wanted, { limit: 100 })
        expect(new Set(listed.map((letter) => letter.id))).toEqual(new Set(ids))
        expect((await summariseDeadLetters(execute, wanted)).total).toBe(ids.length)
        expect(await change(execute, wanted)).toBe(ids.length)
        const { deadLetters: left } = await listDeadLetters(execute, ALL, { limit: 100 })
        const spared = Object.values(made.ids).filter((id) => !ids.includes(id))
        expect(new Set(left.map((letter) => letter.id))).toEqual(new Set(spared))
      }
    },
  )

  test('are listed with the latest first, by a part of the reason in any case', async ({ database }) => {
    const { ids } = await fill(database)
    const { deadLetters: letters } = await listDeadLetters(
      executeOn(database),
      { ...ALL, reason: 'ATTEMPTS' },
      { limit: 2 },
    )
    expect(letters.map((letter) => letter.id)).toEqual([ids.untyped, ids.new])
    expect(await listDeadLetters(executeOn(database), { ...ALL, reason: '%' }, { limit: 2 })).toEqual({
      deadLetters: [],
      next: null,
    })
  })

  test('are summarised by queue, type, reason and error, the largest groups first', async ({ database }) => {
    await fill(database)
    for (let at = 0; at < 30; at++) await bury(database, { queue: 'many', reason: `Reason ${at}` })
    const summary = await summariseDeadLetters(executeOn(database), ALL)
    expect(summary).toMatchObject({ total: 34, moreGroups: 13 })
    expect(summary.groups[0]).toEqual({
      queue: 'filtered',
      type: 'order.paid',
      reason: 'Too many attempts',
      error: null,
      messages: 2,
    })
    expect(summary.groups.map(({ error }) => error)).toContain('Error: Timeout after # s')
  })

  test('that are redriven are due now, and their attempts count from zero', async ({ database }) => {
    const { ids } = await fill(database)
    await redriveDeadLetters(executeOn(database), { ...ALL, ids: [ids.old!] })
    const rows = await database.sql(
      `SELECT id, state, attempt, due_at > enqueued_at + interval '1 hour' AS later FROM sluice.messages WHERE id = $1`,
      [ids.old],
    )
    expect(rows).toEqual([{ id: ids.old, state: 'ready', attempt: 0, later: true }])
  })
})

interface Made {
  readonly nowUs: number
  readonly ids: Readonly<Record<string, string>>
}

async function fill(database: TestDatabase): Promise<Made> {
  await database.sql('DELETE FROM sluice.dead_letter')
  const [old] = await bury(database, { queue: 'filtered', agoMs: 7_200_000 })
  const [recent] = await bury(database, { queue: 'filtered', tenant: 'acme' })
  const [untyped] = await bury(database, { queue: 'filtered', type: null, error: 'Error: Timeout after 30 s' })
  const [elsewhere] = await bury(database, { queue: 'elsewhere', agoMs: 7_200_000 })
  const nowUs = await readClockUs(executeOn(database))
  return { nowUs, ids: { old: old!, new: recent!, untyped: untyped!, elsewhere: elsewhere! } }
}

function executeOn(database: TestDatabase): Execute {
  return (statement, params) => database.sql(statement.text, params)
}
