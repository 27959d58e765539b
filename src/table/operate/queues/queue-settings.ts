import type { QueueSettingsStatus, SettingValues } from '../../../queue-settings.ts'
import { settingColumns, settingValues } from '../../settings/queue-settings.ts'
import { date, nullable, shape, text } from '../../shape.ts'
import { booleanOf, type Execute, only, type Row, statement, textOrNull } from '../../statement.ts'

/** The settings of queues that have any, by name; of one queue only, if it is given. */
export async function readQueueSettings(
  execute: Execute,
  queue: string | null,
): Promise<readonly QueueSettingsStatus[]> {
  return (await execute(READ, [queue])).map(toStatus)
}

/** Changes settings of a queue, in the form of `sluice.queue_set`. */
export async function setQueue(execute: Execute, queue: string, settings: object, by: string | null): Promise<void> {
  await execute(SET, [queue, JSON.stringify(settings), by])
}

/** Pauses a queue. Resolves with whether it went on before. */
export async function pauseQueue(
  execute: Execute,
  queue: string,
  by: string | null,
  reason: string | null,
): Promise<boolean> {
  return booleanOf(only(await execute(PAUSE, [queue, by, reason])), 'changed')
}

/** Ends the pause of a queue. Resolves with whether it was paused. */
export async function resumeQueue(execute: Execute, queue: string, by: string | null): Promise<boolean> {
  return booleanOf(only(await execute(RESUME, [queue, by])), 'changed')
}

function toStatus(row: Row): QueueSettingsStatus {
  const retry = textOrNull(row, 'retry')
  return { ...HEAD.read(row), ...settingValues({ ...row, retry: retry && JSON.parse(retry) }) }
}

const HEAD = shape<Omit<QueueSettingsStatus, keyof SettingValues>>({
  queue: text(),
  pausedAt: nullable.date(),
  pausedBy: nullable.text(),
  pauseReason: nullable.text(),
  changedAt: date(),
  changedBy: nullable.text(),
})

const READ = statement(
  'operate_queue_settings',
  `
SELECT ${HEAD.columns('s')},
       ${settingColumns('s')}
FROM sluice.queue_settings s
WHERE $1::text IS NULL OR s.queue = $1::text
ORDER BY s.queue`,
)

const SET = statement('queue_set', 'SELECT sluice.queue_set($1::text, $2::text::jsonb, $3::text)')

const PAUSE = statement('queue_pause', 'SELECT sluice.pause($1::text, $2::text, $3::text) AS changed')

const RESUME = statement('queue_resume', 'SELECT sluice.resume($1::text, $2::text) AS changed')
