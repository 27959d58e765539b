import pg from 'pg'
import type { Consumer, Contestant, FollowSpec } from '../contestant.ts'
import { rawLog } from './raw-log.ts'

const PAGE = 2_000

/** The rows of a log by themselves, page by page: no reader can be faster. */
export const rawSelect: Contestant = {
  name: 'raw-select',
  title: 'A plain SELECT',
  guarantee: 'None: it remembers nothing',
  onlyIn: 'stream-catch-up',
  install: rawLog.install,
  tables: rawLog.tables,
  fill: (client, { log, ...spec }) => rawLog.fill(client, { ...spec, log: { groups: 1, inFlight: 1 } }),
  // It stores no position, so there is nothing to look up.
  unsettled: async () => 0,
  follows: {
    configuration: `one connection that selects pages of ${PAGE} rows in order of position, each awaited, and parses payloads and headers`,
    run: select,
  },
}

const SELECT = `
SELECT position::text, ordering_key, type, schema_version, payload::text, headers::text, appended_at FROM raw_log.event e
WHERE slot = 0 AND position > $1 ORDER BY e.position LIMIT ${PAGE}`

async function select(url: string, { onSettled }: FollowSpec): Promise<Consumer> {
  const client = new pg.Client(url)
  await client.connect()
  const read = async () => {
    let at = '0'
    for (;;) {
      const { rows } = await client.query<{ position: string; payload: string; headers: string }>({
        name: 'page',
        text: SELECT,
        values: [at],
      })
      const last = rows.at(-1)
      if (last === undefined) return
      for (const { payload, headers } of rows) [payload, headers].map((text) => JSON.parse(text))
      at = last.position
      onSettled(rows.length)
    }
  }
  const ended = read()
  return {
    stop: async () => {
      await ended
      await client.end()
    },
  }
}
