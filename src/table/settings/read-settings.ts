import { type Execute, type Row, statement, textOf } from '../statement.ts'
import { type QueueSettings, toQueueSettings } from './queue-settings.ts'

/** What all queues have been told, and the version by which a reader recognises that it has read it. */
export interface ToldQueues {
  readonly version: string
  readonly queues: ReadonlyMap<string, QueueSettings>
}

/** What queues have been told, unless that is the version that the reader has. */
export async function readSettings(execute: Execute, version: string | null): Promise<ToldQueues | undefined> {
  const [row] = await execute(SETTINGS, [version])
  return row === undefined ? undefined : toToldQueues(row)
}

export function toToldQueues(row: Row): ToldQueues {
  const { version, queues }: ToldRows = JSON.parse(textOf(row, 'told'))
  return { version, queues: new Map(queues.map((queue) => [textOf(queue, 'queue'), toQueueSettings(queue)])) }
}

interface ToldRows {
  readonly version: string
  readonly queues: readonly Row[]
}

/**
 * One row with all of `sluice.queue` as JSON, or none if its version is the one in the parameter. The table is read as a
 * whole, because it has a row only for a queue that has been told something: an empty one costs no buffer, and a thousand
 * rows 0.2 ms. The version is the number of rows and the sum of the numbers of the transactions that wrote them. Each
 * change but a deletion raises the sum, and a deletion lowers the number. So two states with one number have two sums. A
 * counter would be a row that all changes wait for, and `changed_at` does not tell in which order they were committed.
 */
export const toldQueues = (version: string) => `
SELECT pg_catalog.json_build_object(
         'version', t.version, 'queues', (SELECT coalesce(pg_catalog.json_agg(q), '[]') FROM sluice.queue q)
       )::text AS told
FROM (
  SELECT pg_catalog.concat_ws(' ', count(*), pg_catalog.sum(q.xmin::text::bigint)) AS version FROM sluice.queue q OFFSET 0
) t
WHERE t.version IS DISTINCT FROM ${version}::text`

const SETTINGS = statement('settings', toldQueues('$1'))
