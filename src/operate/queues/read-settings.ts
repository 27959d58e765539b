import { checkKeys } from '../../basics/checks/check-keys.ts'
import { integerWithin } from '../../basics/checks/options.ts'
import { toMsWithin } from '../../basics/time/duration.ts'
import { separated } from '../../basics/words/words.ts'
import { expected } from '../../errors.ts'
import { QUEUE_SETTINGS, type QueueSetting, type QueueSettingsInput, type SettingName } from '../../queue-settings.ts'
import { policyName, type RetryOptions, storedRetry } from '../../retry-policy.ts'

/** The names of all settings. */
export const SETTING_NAMES = Object.keys(QUEUE_SETTINGS) as SettingName[]

/** Settings as `sluice.queue_set` takes them, complete in their units. @throws SluiceError OPTION_INVALID */
export function readSettingsInput(what: string, input: QueueSettingsInput): object {
  checkKeys(what, input, SETTING_NAMES, `As in ${what}('emails', { ttl: '7d', maxAttempts: 5 })`)
  const given = SETTING_NAMES.filter((name) => input[name] !== undefined)
  if (given.length === 0) throw expected('OPTION_INVALID', what, 'at least one setting', input)
  return Object.fromEntries(
    given.map((name) => [
      separated(name, '_'),
      input[name] === null ? null : read(`${what}.${name}`, input[name], QUEUE_SETTINGS[name]),
    ]),
  )
}

function read(what: string, value: unknown, setting: QueueSetting): unknown {
  switch (setting.kind) {
    case 'time':
      return toMsWithin(what, value, setting.least)
    case 'count':
      return integerWithin(what, value, 1, setting.most)
    case 'choice':
      return choiceOf(what, value, setting.words)
    case 'policy':
      return retryOf(what, value)
    case 'rate':
      return rateOf(what, value)
  }
}

const MOST_PER_TIME = 1_000_000

function choiceOf(what: string, value: unknown, words: readonly string[]): string {
  const found = words.find((word) => word === value)
  if (found !== undefined) return separated(found, '_')
  throw expected('OPTION_INVALID', what, `${words.map((word) => `'${word}'`).join(', ')} or null`, value)
}

function retryOf(what: string, value: unknown): unknown {
  if (typeof value === 'string') return policyName(what, value)
  if (typeof value === 'function') {
    const remedy = 'Give it a name in createSluice({ retryPolicies }), and set that'
    throw expected('OPTION_INVALID', what, 'the name of a policy, or an object with a kind', value, remedy)
  }
  return storedRetry(what, value as RetryOptions)
}

function rateOf(what: string, value: unknown): unknown {
  checkKeys(what, value, ['limit', 'per', 'burst'], "As in { limit: 100, per: '1s', burst: 10 }")
  const {
    limit,
    per = '1s',
    burst,
  }: { readonly limit?: unknown; readonly per?: unknown; readonly burst?: unknown } = value
  return {
    limit: integerWithin(`${what}.limit`, limit, 1, MOST_PER_TIME),
    per: toMsWithin(`${what}.per`, per, '1ms'),
    ...(burst === undefined ? {} : { burst: integerWithin(`${what}.burst`, burst, 1, MOST_PER_TIME) }),
  }
}
