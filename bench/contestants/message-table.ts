import type pg from 'pg'
import type { Contestant, FillSpec } from '../contestant.ts'

/** The table of Sluice, for Sluice itself and for the yardsticks that work on it without the library. */
export const messageTable: Pick<Contestant, 'install' | 'tables' | 'fill' | 'unsettled'> = {
  install: async (url) => {
    const { createSluice } = await import('../../src/index.ts')
    await using sluice = createSluice({ connection: url })
    await sluice.migrate()
  },
  tables: ['sluice.message', 'sluice.slot', 'sluice.dead_letter', 'sluice.batch', 'sluice.crash'],
  fill,
  unsettled,
}

async function fill(client: pg.Client, spec: FillSpec): Promise<void> {
  await client.query(
    `INSERT INTO sluice.message (queue, payload)
     SELECT 'bench', jsonb_build_object('n', n) FROM generate_series(1, $1::integer) AS n`,
    [spec.messages],
  )
}

async function unsettled(client: pg.Client): Promise<number> {
  const { rows } = await client.query<{ count: string }>(`SELECT count(*) FROM sluice.message WHERE queue = 'bench'`)
  return Number(rows[0]?.count)
}
