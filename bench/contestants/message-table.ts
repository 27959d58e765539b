import type pg from 'pg'
import type { Contestant, FillSpec } from '../contestant.ts'

/** The table of Sluice, for Sluice itself and for the yardsticks that work on it without the library. */
export const messageTable: Pick<Contestant, 'install' | 'tables' | 'fill' | 'unsettled'> = {
  install: async (url) => {
    const { createSluice } = await import('../../src/index.ts')
    await using sluice = createSluice({ connection: url })
    await sluice.migrate()
  },
  tables: ['sluice.message', 'sluice.slot', 'sluice.dead_letter', 'sluice.batch_record', 'sluice.crash'],
  fill,
  unsettled,
}

/** Without the trigger that wakes consumers: what an INSERT into the same table costs by itself. */
export const withoutTrigger: NonNullable<Contestant['setUp']> = {
  sql: 'ALTER TABLE sluice.message DISABLE TRIGGER message_wake',
  undo: 'ALTER TABLE sluice.message ENABLE TRIGGER message_wake',
}

async function fill(client: pg.Client, { messages, scheduled = 0, keys, bytes }: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO sluice.message (queue, payload, ordering_key, due_at)
     SELECT 'bench',
            jsonb_strip_nulls(jsonb_build_object('n', n, 'text', repeat('x', $4::integer))),
            'key-' || n % $3::integer,
            clock_timestamp() + CASE WHEN n > $1 THEN interval '1 day' ELSE interval '0' END
     FROM generate_series(1, $1::integer + $2::integer) AS n`,
    [messages, scheduled, keys, bytes],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(`SELECT count(*) FROM sluice.message WHERE queue = 'bench'`)
  return Number(rows[0]?.count)
}
