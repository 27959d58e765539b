import type { Duration } from './basics/time/duration.ts'
import type { RetryOptions } from './retry-policy.ts'

/**
 * All settings of queues. Each has its name in TypeScript; `_` and `-` separate its words in SQL and on the command line. A
 * time is stored in milliseconds, as `<name>_ms`. To add one takes its line here, its comments in the two interfaces below,
 * its column in SQL, and whatever goes by it.
 */
export const QUEUE_SETTINGS = {
  delay: { kind: 'time', least: '0ms', help: 'the delay of messages without their own delay or due time' },
  ttl: {
    kind: 'time',
    least: '1ms',
    help: 'the time to live of messages without their own, counted from the due time',
  },
  onExpiry: { kind: 'choice', words: ['drop', 'deadLetter'], help: 'what happens to an expired message' },
  maxAttempts: {
    kind: 'count',
    most: 1_000_000,
    help: 'the number of failed attempts before a message becomes a dead letter',
  },
  retry: { kind: 'policy', help: 'the name of a retry policy, or one as JSON' },
  payloadLimitBytes: { kind: 'count', most: 268_435_456, help: 'the largest payload, as JSON' },
  history: { kind: 'time', least: '1ms', help: 'how long succeeded messages are kept' },
  deadLetterRetention: { kind: 'time', least: '1ms', help: 'how long dead letters are kept' },
  rate: { kind: 'rate', help: 'how many messages may start per period: 100/1s, or 100/1s/10 with a burst' },
  tenantRate: { kind: 'rate', help: 'the same for the messages of one tenant' },
  concurrency: { kind: 'count', most: 10_000, help: 'how many messages may be in flight, in all processes together' },
  tenantConcurrency: { kind: 'count', most: 10_000, help: 'the same for the messages of one tenant' },
} as const satisfies Readonly<Record<keyof QueueSettingsInput, QueueSetting>>

/** The settings of a queue. Null unsets one; what is left out stays as it is. */
export interface QueueSettingsInput {
  /** The delay of messages without their own delay or due time, up to 100 years. */
  readonly delay?: Duration | null
  /** The time to live of messages without their own `ttl`, 1 ms to 100 years, counted from the due time. */
  readonly ttl?: Duration | null
  /** What happens to an expired message. */
  readonly onExpiry?: 'drop' | 'deadLetter' | null
  /** The number of failed attempts after which messages without their own limit become dead letters, 1 to 1,000,000. */
  readonly maxAttempts?: number | null
  /** The name of a policy in `createSluice({ retryPolicies })`, or a policy that is not a function. */
  readonly retry?: StoredRetry | null
  /** The largest payload in bytes of JSON, 1 to 268,435,456. The limit of the process that enqueues applies as well. */
  readonly payloadLimitBytes?: number | null
  /** How long succeeded messages are kept, 1 ms to 100 years. */
  readonly history?: Duration | null
  /** How long dead letters are kept, 1 ms to 100 years. */
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

/** The settings of a queue: a row of `sluice.queue_settings`. Null: it is not set, and the code decides. */
export interface QueueSettingsStatus {
  /** The name of the queue. */
  readonly queue: string
  /** When it was paused; null: it is not paused. */
  readonly pausedAt: Date | null
  /** Who has paused it. */
  readonly pausedBy: string | null
  /** Why. */
  readonly pauseReason: string | null
  /** The delay of messages without their own delay or due time. */
  readonly delayMs: number | null
  /** The time to live of messages without their own `ttl`, counted from the due time. */
  readonly ttlMs: number | null
  /** What happens to an expired message. */
  readonly onExpiry: 'drop' | 'deadLetter' | null
  /** The number of failed attempts after which messages without their own limit become dead letters. */
  readonly maxAttempts: number | null
  /** The name of a retry policy, or one as the option `retry` of a pipeline, with times in milliseconds. */
  readonly retry: unknown
  /** The largest payload in bytes of JSON. */
  readonly payloadLimitBytes: number | null
  /** How long succeeded messages are kept. */
  readonly historyMs: number | null
  /** How long dead letters are kept. */
  readonly deadLetterRetentionMs: number | null
  /** How many messages may begin per time. */
  readonly rate: RateStatus | null
  /** The same for those of one tenant. */
  readonly tenantRate: RateStatus | null
  /** How many messages may be in flight, of all processes. */
  readonly concurrency: number | null
  /** The same for those of one tenant. */
  readonly tenantConcurrency: number | null
  /** When a setting was changed last. */
  readonly changedAt: Date
  /** Who changed it: a name that was given, or else the database user. */
  readonly changedBy: string | null
}

/** A retry policy that can be stored: its name, or its options. */
export type StoredRetry = string | Exclude<RetryOptions, (attempt: number, error: unknown) => Duration>

/** A number per period, and a number at once after a quiet time. */
export interface RateInput {
  /** 1 to 1,000,000. */
  readonly limit: number
  /** 1 ms to 100 years. @default '1s' */
  readonly per?: Duration
  /** 1 to 1,000,000. @default limit */
  readonly burst?: number
}

/** `limit` messages per `perMs`; `burst` at once after a pause, null: as many as `limit`. */
export interface RateStatus {
  readonly limit: number
  readonly perMs: number
  readonly burst: number | null
}

/** What a setting is, and what the command line says about it. */
export type QueueSetting = { readonly help: string } & (
  | { readonly kind: 'time'; readonly least: Duration }
  | { readonly kind: 'count'; readonly most: number }
  | { readonly kind: 'choice'; readonly words: readonly string[] }
  | { readonly kind: 'policy' }
  | { readonly kind: 'rate' }
)

export type SettingName = keyof typeof QUEUE_SETTINGS

/** What a setting is called where its value is: `ttlMs`, `maxAttempts`. */
type ValueName<Name extends SettingName> = (typeof QUEUE_SETTINGS)[Name]['kind'] extends 'time' ? `${Name}Ms` : Name

/** The values of all settings of a queue. */
export type SettingValues = Pick<QueueSettingsStatus, { [Name in SettingName]: ValueName<Name> }[SettingName]>

interface NamedSetting {
  readonly name: SettingName
  readonly valueName: keyof SettingValues
  readonly setting: QueueSetting
}

/** The same as a list. */
export const SETTINGS: readonly NamedSetting[] = Object.entries<QueueSetting>(QUEUE_SETTINGS).map(
  ([name, setting]) => ({ name, valueName: setting.kind === 'time' ? `${name}Ms` : name, setting }) as NamedSetting,
)
