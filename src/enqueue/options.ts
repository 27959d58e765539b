import { checkKeys } from '../basics/check-keys.ts'
import { type Duration, toMs, toMsWithin } from '../basics/duration.ts'
import { dateOf, integer, LARGEST_INTEGER } from '../basics/options.ts'
import { SluiceError } from '../errors.ts'
import type { Headers } from '../message.ts'
import { policyName } from '../retry-policy.ts'
import { DEFAULTS, type InsertRow } from '../table/enqueue/insert-row.ts'
import { type Dedupe, readDedupe } from './dedupe.ts'
import { labelOf, readLabels } from './labels.ts'

/** The options of one message. */
export interface EnqueueOptions {
  /** Dot-separated, such as 'order.paid', for routes: 1 to 255 bytes, no spaces, no `*`. Default none. */
  readonly type?: string | undefined
  /** The version of the payload's schema, from 1. @default 1 */
  readonly schemaVersion?: number | undefined
  /** Metadata that travels with the message. @default {} */
  readonly headers?: Headers | undefined
  /** Messages with the same key are handled one at a time, in the order of their ids: 1 to 255 bytes. Default none. */
  readonly orderingKey?: string | undefined
  /** 0 (first) to 9. Messages with an ordering key go by their order instead. @default 5 */
  readonly priority?: number | undefined
  /**
   * Due this long after the insert, by the database's clock. One of more than 1.2 s wakes nobody: with a `pollInterval` above a
   * second, a worker that sleeps may begin it up to one poll late. @default 0
   */
  readonly delay?: Duration | undefined
  /** Due at this instant, by the database's clock; at once if it has passed. Not together with `delay`. */
  readonly dueAt?: Date | undefined
  /** After how many failed attempts the message goes to the dead letters, from 1. Default: as the pipeline says. */
  readonly maxAttempts?: number | undefined
  /**
   * For how long after it is first due the message may be delivered: 1 ms to 100 years. Then it expires, unless somebody
   * has it in hand. Default: as the queue has been told, or for ever.
   */
  readonly ttl?: Duration | undefined
  /** The name of a retry policy of `createSluice({ retryPolicies })`: 1 to 100 bytes. Default: as the queue or pipeline says. */
  readonly retryPolicy?: string | undefined
  /** Its lease in leased mode, 1 s to 24 h. Default: as the pipeline says. */
  readonly lease?: Duration | undefined
  /** Whose message it is, where a queue shares its workers out among tenants: 1 to 255 bytes. Not with `orderingKey`. Default none. */
  readonly tenant?: string | undefined
  /** With a dedupe key the answer says what became of the message: see {@link DedupedOptions}. */
  readonly dedupe?: undefined
}

/** The options of one message with a dedupe key. */
export interface DedupedOptions extends Omit<EnqueueOptions, 'dedupe'> {
  /** Its dedupe key: an enqueue with a key that is taken does not simply add another message. */
  readonly dedupe: Dedupe
}

const NAMES = [
  'type',
  'schemaVersion',
  'headers',
  'orderingKey',
  'priority',
  'delay',
  'dueAt',
  'maxAttempts',
  'ttl',
  'retryPolicy',
  'lease',
  'tenant',
  'dedupe',
] as const satisfies readonly (keyof EnqueueOptions)[]

/**
 * The options as columns of the row.
 *
 * @param what the name of the object in errors, such as 'options' or 'messages[3]'
 * @throws SluiceError OPTION_INVALID, also for unknown options
 */
export function readOptions(options: unknown, what: string): Omit<InsertRow, 'payload'> {
  if (options === undefined) return DEFAULTS
  checkKeys(what, options, NAMES, "As in { delay: '5m', priority: 0 }")
  const given: Given = options
  const at = (name: (typeof NAMES)[number]): string => `${what}.${name}`
  return {
    ...readLabels(given, what),
    priority: integer(at('priority'), given.priority, DEFAULTS.priority, 0, 9),
    delayMs: given.delay === undefined ? null : toMs(given.delay, at('delay')),
    dueAt: instantOf(given, what),
    maxAttempts: integer(at('maxAttempts'), given.maxAttempts, DEFAULTS.maxAttempts, 1, LARGEST_INTEGER),
    ttlMs: given.ttl === undefined ? null : toMsWithin(at('ttl'), given.ttl, '1ms', '36500d'),
    retryPolicy: given.retryPolicy === undefined ? null : policyName(at('retryPolicy'), given.retryPolicy),
    leaseMs: given.lease === undefined ? null : Math.round(toMsWithin(at('lease'), given.lease, '1s', '24h')),
    tenant: tenantOf(given, what),
    dedupe: readDedupe(given.dedupe, at('dedupe'), {
      time: given.delay !== undefined || given.dueAt !== undefined,
      tenant: given.tenant !== undefined,
    }),
  }
}

type Given = { readonly [Name in keyof EnqueueOptions]?: unknown }

/** Messages with an ordering key are claimed key by key, which would pass the limit of a tenant. */
function tenantOf({ tenant, orderingKey }: Given, what: string): string | null {
  if (tenant !== undefined && orderingKey !== undefined) {
    const sentence = `${what}: expected tenant or orderingKey, received both`
    throw new SluiceError('OPTION_INVALID', `${sentence}. Leave one out: messages with keys share workers by key`)
  }
  return labelOf(tenant, `${what}.tenant`, 'a string')
}

function instantOf({ delay, dueAt }: Given, what: string): string | null {
  if (dueAt === undefined) return null
  if (delay !== undefined)
    throw new SluiceError('OPTION_INVALID', `${what}: expected delay or dueAt, received both. Leave one of them out`)
  const remedy = "As in new Date('2030-01-01'). For a time from now there is delay"
  return dateOf(`${what}.dueAt`, dueAt, remedy).toISOString()
}
