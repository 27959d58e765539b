import { checkKeys } from './basics/checks/check-keys.ts'
import { type Duration, toMs } from './basics/time/duration.ts'
import { expected } from './errors.ts'

/**
 * When to try again after the given failed attempt (1 for the first), in milliseconds from now. If it throws, or
 * returns anything but a finite number from 0, the message is tried again after one second.
 */
export type RetryPolicy = (attempt: number, error: unknown) => number

/** How a pipeline retries: with a fixed wait, with growing waits, or by your own function. */
export type RetryOptions =
  | {
      readonly kind: 'fixed'
      /** The wait after each failure. */
      readonly delay: Duration
    }
  | {
      readonly kind: 'exponential'
      /** The wait after the first failure. @default '1s' */
      readonly delay?: Duration | undefined
      /** The longest wait, at least `delay`. @default '1h', or `delay` if that is longer */
      readonly maxDelay?: Duration | undefined
      /** By how much each wait grows, 1 to 100. @default 2 */
      readonly factor?: number | undefined
      /** How much of each wait is random, 0 to 1. @default 0.2: 80 to 100 per cent of the full wait */
      readonly jitter?: number | undefined
    }
  | ((attempt: number, error: unknown) => Duration)

/** Retry policies by their names. */
export type RetryPolicies = ReadonlyMap<string, RetryPolicy>

/** The wait if a policy throws. */
export const FALLBACK_RETRY_MS = 1_000

/**
 * The number of failed attempts after which a message becomes a dead letter, unless the pipeline, claim or message says
 * otherwise.
 */
export const MAX_ATTEMPTS = 20

/**
 * Makes a policy of the options. Without options: exponential, 1 s, 2 s, 4 s, … up to an hour, with 20 % jitter.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function retryPolicy(
  options: RetryOptions | undefined,
  random: () => number = Math.random,
  what = 'retry',
): RetryPolicy {
  if (options === undefined) return exponential({ kind: 'exponential' }, random, what)
  if (typeof options === 'function') return (attempt, error) => toMs(options(attempt, error), 'retry()')
  if (options?.kind === 'exponential') return exponential(options, random, what)
  if (options?.kind === 'fixed') {
    refuseGrowth(what, options)
    checkKeys(what, options, ['kind', 'delay'])
    const ms = toMs(options.delay, `${what}.delay`)
    return () => ms
  }
  const given: unknown = options
  if (typeof given !== 'object' || given === null) {
    const remedy = typeof given === 'string' ? REMEDY_FOR_NAME : REMEDY
    throw expected('OPTION_INVALID', what, 'an object with a kind, or a function', given, remedy)
  }
  throw expected('OPTION_INVALID', `${what}.kind`, "'fixed' or 'exponential'", Reflect.get(given, 'kind'), REMEDY)
}

const REMEDY = "As in { kind: 'fixed', delay: '5s' }. How often to try is maxAttempts"

/** Names are of policies that `createSluice` was given. */
const REMEDY_FOR_NAME =
  "The name of a policy is for a message, as in enqueue(…, { retryPolicy: 'payment' }), or for a queue, as in operate.queues.settings.set(queue, { retry: 'payment' })"

/**
 * Refuses options of the exponential kind by saying so: they are no spelling mistakes.
 *
 * @throws SluiceError OPTION_INVALID
 */
function refuseGrowth(what: string, options: object): void {
  const growth = ['maxDelay', 'factor', 'jitter'].find((name) => Object.hasOwn(options, name))
  if (growth === undefined) return
  const remedy = `${growth} belongs to kind: 'exponential'`
  throw expected('OPTION_INVALID', what, 'only the options kind, delay', growth, remedy)
}

function exponential(
  options: Extract<RetryOptions, { kind: 'exponential' }>,
  random: () => number,
  what: string,
): RetryPolicy {
  checkKeys(what, options, ['kind', 'delay', 'maxDelay', 'factor', 'jitter'])
  const delayMs = toMs(options.delay ?? 1_000, `${what}.delay`)
  const maxDelayMs = longestWait(options, delayMs, `${what}.maxDelay`)
  const factor = within(`${what}.factor`, options.factor ?? 2, 1, 100)
  const jitter = within(`${what}.jitter`, options.jitter ?? 0.2, 0, 1)
  // The growth may overflow to infinity, and zero times infinity is NaN.
  const growth = (attempt: number) => Math.min(factor ** (attempt - 1), Number.MAX_VALUE)
  return (attempt) => Math.min(maxDelayMs, delayMs * growth(attempt)) * (1 - jitter * random())
}

/** @throws SluiceError OPTION_INVALID if it is shorter than the first wait, and both are given */
function longestWait(options: { delay?: unknown; maxDelay?: unknown }, delayMs: number, what: string): number {
  if (options.maxDelay === undefined) return Math.max(3_600_000, delayMs)
  const ms = toMs(options.maxDelay, what)
  if (options.delay === undefined || ms >= delayMs) return ms
  throw expected('OPTION_INVALID', what, `no less than the delay, which is ${delayMs} ms`, options.maxDelay)
}

function within(what: string, value: unknown, least: number, most: number): number {
  if (typeof value === 'number' && value >= least && value <= most) return value
  throw expected('OPTION_INVALID', what, `a number from ${least} to ${most}`, value)
}

/** Retry policies by name, as an option; undefined: none were given. @throws SluiceError OPTION_INVALID */
export function retryPolicies(given: unknown): RetryPolicies | undefined {
  if (given === undefined) return undefined
  const remedy = "As in { gentle: { kind: 'exponential', delay: '1m' } }"
  if (typeof given !== 'object' || given === null || Array.isArray(given))
    throw expected('OPTION_INVALID', 'retryPolicies', 'an object with the names of policies as keys', given, remedy)
  return new Map(
    Object.entries(given).map(([name, options]: [string, RetryOptions | undefined]) => {
      const what = `retryPolicies.${name}`
      if (options === undefined) throw expected('OPTION_INVALID', what, 'a retry policy', options, remedy)
      return [policyName('the name of a retry policy', name), retryPolicy(options, Math.random, what)]
    }),
  )
}

/**
 * Those of {@link retryPolicies}, if one of them is a function: only this process can say when such a message is tried
 * again.
 */
export function calledPolicies(given: Readonly<Record<string, RetryOptions>> | undefined): RetryPolicies | undefined {
  return Object.values(given ?? {}).some((policy) => typeof policy === 'function') ? retryPolicies(given) : undefined
}

/** A name that a message can keep. @throws SluiceError OPTION_INVALID */
export function policyName(what: string, name: unknown): string {
  const bytes = typeof name === 'string' ? Buffer.byteLength(name) : 0
  if (typeof name === 'string' && bytes >= 1 && bytes <= 100 && !name.includes('\0') && name.isWellFormed()) return name
  throw expected('OPTION_INVALID', what, 'a name of 1 to 100 bytes', name)
}

/**
 * A policy as the database keeps it, with its times in whole milliseconds; undefined: it is a function.
 *
 * @throws SluiceError OPTION_INVALID
 */
export function storedRetry(what: string, options: RetryOptions): object | undefined {
  retryPolicy(options, Math.random, what)
  if (typeof options === 'function') return undefined
  const { delay, maxDelay, ...others } = { maxDelay: undefined, ...options }
  const ms = (name: string, time: Duration | undefined) =>
    time === undefined ? {} : { [name]: Math.ceil(toMs(time, `${what}.${name}`)) }
  return { ...others, ...ms('delay', delay), ...ms('maxDelay', maxDelay) }
}

/** As JSON, by their names, those that are functions left out; null: there is none. */
export function storedPolicies(given: Readonly<Record<string, RetryOptions>> | undefined): string | null {
  const stored = Object.entries(given ?? {}).flatMap(([name, options]) => {
    const policy = storedRetry(`retryPolicies.${name}`, options)
    return policy === undefined ? [] : [[name, policy]]
  })
  return stored.length === 0 ? null : JSON.stringify(Object.fromEntries(stored))
}
