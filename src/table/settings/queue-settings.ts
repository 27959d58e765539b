import { separated } from '../../basics/words/words.ts'
import { type QueueSetting, type RateStatus, SETTINGS, type SettingValues } from '../../queue-settings.ts'
import { numberOf, type Row, textOf } from '../statement.ts'

/** What a worker knows of a queue: a row of `sluice.queue`. */
export interface SettingsInForce extends SettingValues {
  /** Nothing is claimed while it is paused. */
  readonly paused: QueuePause | null
}

/** Since when a queue is paused, by whom and why. */
export interface QueuePause {
  readonly at: Date
  readonly by: string | null
  readonly reason: string | null
}

/** The settings of a queue without a row. */
export const NO_SETTINGS: SettingsInForce = toSettingsInForce({})

/** A row of `sluice.queue`, as JSON has it. Numbers in it are exact: times are below 2^53 milliseconds. */
export function toSettingsInForce(row: Row): SettingsInForce {
  return { paused: typeof row.paused_at === 'string' ? pauseOf(row, row.paused_at) : null, ...settingValues(row) }
}

/** The settings in a row of `sluice.queue`. A column that is not there counts as null. */
export function settingValues(row: Row): SettingValues {
  const values = SETTINGS.map(({ name, valueName, setting }) => [
    valueName,
    settingIn(row, columnOf(name, setting), setting),
  ])
  return Object.fromEntries(values) as SettingValues
}

/** Columns of the view `sluice.queue_settings`, under the names that they have in `sluice.queue`. */
export function settingColumns(of: string): string {
  return SETTINGS.map(({ name, setting }) => columnsOf(of, separated(name, '_'), setting.kind)).join(',\n       ')
}

function columnOf(name: string, { kind }: QueueSetting): string {
  return `${separated(name, '_')}${kind === 'time' ? '_ms' : ''}`
}

function columnsOf(of: string, name: string, kind: QueueSetting['kind']): string {
  switch (kind) {
    case 'time':
      return milliseconds(`${of}.${name}`, `${name}_ms`)
    case 'rate':
      return `${of}.${name}, ${milliseconds(`${of}.${name}_per`, `${name}_ms`)}, ${of}.${name}_burst`
    case 'policy':
      return `${of}.${name}::text AS ${name}`
    default:
      return `${of}.${name}`
  }
}

function milliseconds(interval: string, name: string): string {
  return `(extract(epoch FROM ${interval}) * 1000.0)::bigint AS ${name}`
}

function settingIn(row: Row, column: string, setting: QueueSetting): unknown {
  switch (setting.kind) {
    case 'rate':
      return rateOf(row, column)
    case 'policy':
      return row[column] ?? null
    case 'choice':
      return setting.words.find((word) => separated(word, '_') === row[column]) ?? null
    default:
      return numberIn(row, column)
  }
}

/** Per second, unless it says otherwise. */
function rateOf(row: Row, column: string): RateStatus | null {
  const limit = numberIn(row, column)
  if (limit === null) return null
  return { limit, perMs: numberIn(row, `${column}_ms`) ?? 1_000, burst: numberIn(row, `${column}_burst`) }
}

function pauseOf(row: Row, at: string): QueuePause {
  return { at: new Date(at), by: textIn(row, 'paused_by'), reason: textIn(row, 'pause_reason') }
}

function numberIn(row: Row, column: string): number | null {
  return row[column] === null || row[column] === undefined ? null : numberOf(row, column)
}

function textIn(row: Row, column: string): string | null {
  return row[column] === null || row[column] === undefined ? null : textOf(row, column)
}
