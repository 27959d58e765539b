import { UNITS } from '../../basics/time/duration-words.ts'
import { separated } from '../../basics/words/words.ts'
import { type QueueSetting, type QueueSettingsStatus, type RateStatus, SETTINGS } from '../../queue-settings.ts'

/** The settings of a queue, without its pause, as they are given on the command line: `ttl 7d, max-attempts 5`. */
export function settingsText(settings: QueueSettingsStatus): string {
  return settingsOf(settings)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ')
}

/** Each setting with its value, as options of `sluice queue set` take it. */
export function settingsOf(settings: QueueSettingsStatus): readonly (readonly [string, string])[] {
  return SETTINGS.flatMap(({ name, valueName, setting }) => {
    const value = settings[valueName]
    return value === null ? [] : [[separated(name, '-'), valueText(setting.kind, value)]]
  })
}

function valueText(kind: QueueSetting['kind'], value: unknown): string {
  if (kind === 'time') return time(Number(value))
  if (typeof value !== 'object') return String(value)
  return kind === 'rate' ? rate(value as RateStatus) : JSON.stringify(value)
}

function rate({ limit, perMs, burst }: RateStatus): string {
  return `${limit}/${time(perMs)}${burst === null ? '' : `/${burst}`}`
}

/** In the largest unit that makes it a whole number: `7d`, `90m`, `1500ms`. */
function time(ms: number): string {
  const [unit, size] = UNITS.find(([, one]) => ms > 0 && ms % one === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}
