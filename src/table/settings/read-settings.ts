import { type Execute, type Row, statement, textOf } from '../statement.ts'
import { type SettingsInForce, toSettingsInForce } from './queue-settings.ts'

/** The settings of all queues, and the version by which a reader recognises that it has read it. */
export interface AllSettings {
  readonly version: string
  readonly queues: ReadonlyMap<string, SettingsInForce>
}

/** The settings of queues, unless the reader has that version. */
export async function readSettings(execute: Execute, version: string | null): Promise<AllSettings | undefined> {
  const [row] = await execute(SETTINGS, [version])
  return row === undefined ? undefined : toAllSettings(row)
}

export function toAllSettings(row: Row): AllSettings {
  const { version, queues }: SettingsRows = JSON.parse(textOf(row, 'settings'))
  return { version, queues: new Map(queues.map((queue) => [textOf(queue, 'queue'), toSettingsInForce(queue)])) }
}

interface SettingsRows {
  readonly version: string
  readonly queues: readonly Row[]
}

/**
 * One row with all of `sluice.queue` as JSON, or none if its version is the one in the parameter. The table is read as a
 * whole, because it has a row only for a queue with settings: an empty one costs no buffer, and a thousand
 * rows 0.3 ms. The version is a digest of which rows there are: the number of them, and the sum of a hash of 64 bits of each
 * queue with the number of the transaction that wrote its row. No transaction can write a row again after another one has,
 * so a queue and that number are one content. Their order does not matter, nor in which order they were committed, which
 * neither a sequence nor `changed_at` tells; a counter would be a row that all changes wait for.
 */
export const allSettings = (version: string) => `
SELECT pg_catalog.json_build_object(
         'version', t.version, 'queues', (SELECT coalesce(pg_catalog.json_agg(q), '[]') FROM sluice.queue q)
       )::text AS settings
FROM (
  SELECT pg_catalog.concat_ws(' ', count(*), pg_catalog.sum(hashtextextended(q.queue COLLATE "C", q.xmin::text::bigint))) AS version FROM sluice.queue q OFFSET 0
) t
WHERE t.version IS DISTINCT FROM ${version}::text`

const SETTINGS = statement('settings', allSettings('$1'))
