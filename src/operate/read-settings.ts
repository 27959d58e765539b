import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMsWithin } from '../basics/duration.ts'
import { integerWithin } from '../basics/options.ts'
import { expected } from '../errors.ts'
import { policyName, type RetryOptions, storedRetry } from '../retry-policy.ts'

/** What a queue can be told. Null unsets what it has been told before; what is left out stays as it is. */
export interface QueueSettingsInput {
  /** After how long a message is due that gives neither a delay nor a due time, up to 100 years. */
  readonly delay?: Duration | null
  /** For how long after it is due a message may be delivered that gives no time of its own, 1 ms to 100 years. */
  readonly ttl?: Duration | null
  /** What becomes of a message that has expired. */
  readonly onExpiry?: 'drop' | 'deadLetter' | null
  /** After how many failed attempts a message becomes a dead letter that has no limit of its own, 1 to 1,000,000. */
  readonly maxAttempts?: number | null
  /** The name of a policy in `createSluice({ retryPolicies })`, or a policy that is not a function. */
  readonly retry?: StoredRetry | null
  /** The largest payload in bytes of JSON, 1 to 268,435,456, beside the limit of whoever enqueues. */
  readonly payloadLimitBytes?: number | null
  /** For how long messages that have succeeded are kept, 1 ms to 100 years. */
  readonly history?: Duration | null
  /** For how long dead letters are kept, 1 ms to 100 years. */
  readonly deadLetterRetention?: Duration | null
  /** How many messages may begin per time, of all processes. */
  readonly rate?: RateInput | null
  /** The same for the messages of one tenant. */
  readonly tenantRate?: RateInput | null
  /** How many messages may be in flight, of all processes, 1 to 10,000. */
  readonly concurrency?: number | null
  /** The same for the messages of one tenant. */
  readonly tenantConcurrency?: number | null
}

/** A retry policy that can be stored: its name, or its options. */
export type StoredRetry = string | Exclude<RetryOptions, (attempt: number, error: unknown) => Duration>

/** So many per time, and so many at once after a pause. */
export interface RateInput {
  /** 1 to 1,000,000. */
  readonly limit: number
  /** 1 ms to 100 years. @default '1s' */
  readonly per?: Duration
  /** 1 to 1,000,000. @default limit */
  readonly burst?: number
}

/** Settings as `sluice.queue_set` takes them, complete in their units. @throws SluiceError OPTION_INVALID */
export function readSettingsInput(what: string, input: QueueSettingsInput): object {
  checkKeys(what, input, Object.keys(READERS), `As in ${what}('emails', { ttl: '7d', maxAttempts: 5 })`)
  const given = Object.entries(input).filter(([, value]) => value !== undefined)
  if (given.length === 0) throw expected('OPTION_INVALID', what, 'at least one setting', input)
  return Object.fromEntries(
    given.map(([name, value]) => {
      const [column, read] = READERS[name as keyof QueueSettingsInput]
      return [column, value === null ? null : read(`${what}.${name}`, value)]
    }),
  )
}

/** The names of all settings. */
export function settingNames(): readonly (keyof QueueSettingsInput)[] {
  return Object.keys(READERS) as (keyof QueueSettingsInput)[]
}

type Reader = (what: string, value: unknown) => unknown

const time: Reader = (what, value) => toMsWithin(what, value, '1ms', LONGEST)
const to =
  (most: number): Reader =>
  (what, value) =>
    integerWithin(what, value, 1, most)

const LONGEST = '36525d'
const MOST_PER_TIME = 1_000_000

/** The name of each in SQL, and what reads it. */
const READERS: Readonly<Record<keyof QueueSettingsInput, readonly [string, Reader]>> = {
  delay: ['delay', (what, value) => toMsWithin(what, value, '0ms', LONGEST)],
  ttl: ['ttl', time],
  onExpiry: ['on_expiry', onExpiryOf],
  maxAttempts: ['max_attempts', to(1_000_000)],
  retry: ['retry', retryOf],
  payloadLimitBytes: ['payload_limit_bytes', to(268_435_456)],
  history: ['history', time],
  deadLetterRetention: ['dead_letter_retention', time],
  rate: ['rate', rateOf],
  tenantRate: ['tenant_rate', rateOf],
  concurrency: ['concurrency', to(10_000)],
  tenantConcurrency: ['tenant_concurrency', to(10_000)],
}

function onExpiryOf(what: string, value: unknown): unknown {
  if (value === 'drop') return value
  if (value === 'deadLetter') return 'dead_letter'
  throw expected('OPTION_INVALID', what, "'drop', 'deadLetter' or null", value)
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
    per: time(`${what}.per`, per),
    ...(burst === undefined ? {} : { burst: integerWithin(`${what}.burst`, burst, 1, MOST_PER_TIME) }),
  }
}
