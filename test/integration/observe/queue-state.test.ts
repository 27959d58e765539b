import { expect } from 'vitest'
import { put, test } from '../../support/sluice.ts'

const STATE = 'SELECT ready, scheduled, next_due_at::text FROM sluice.queues WHERE queue = $1'

test('an empty queue has nothing ready and nothing due', async ({ database, queue }) => {
  expect(await database.sql(STATE, [queue])).toEqual([])
})

test('a message without delay is ready', async ({ database, sluice, queue }) => {
  await put(sluice, queue, [1])
  expect(await database.sql(STATE, [queue])).toEqual([{ ready: '1', scheduled: '0', next_due_at: null }])
})

test('a message that fell due two seconds ago is ready, and as old as that', async ({ database, queue }) => {
  await database.sql(
    `INSERT INTO sluice.message (queue, payload, due_at) VALUES ($1, '1', clock_timestamp() - interval '2 s')`,
    [queue],
  )
  expect(await database.sql(STATE, [queue])).toEqual([{ ready: '1', scheduled: '0', next_due_at: null }])
  expect(
    await database.sql(`SELECT oldest_ready_age >= interval '2 s' AS old FROM sluice.queues WHERE queue = $1`, [queue]),
  ).toEqual([{ old: true }])
})

test('a message due later tells when, to the microsecond', async ({ database, queue }) => {
  const [row] = await database.sql<{ due: string }>(
    `WITH wanted AS (SELECT date_trunc('seconds', clock_timestamp()) + interval '2 h' + interval '123456 microseconds' AS due)
     SELECT due::text, sluice.enqueue($1, '1'::jsonb, due_at => due) FROM wanted`,
    [queue],
  )
  expect(row?.due).toContain('.123456')
  expect(await database.sql(STATE, [queue])).toEqual([{ ready: '0', scheduled: '1', next_due_at: row?.due }])
})
