import { LARGEST_INTEGER } from './basics/checks/options.ts'
import { type Duration, HUNDRED_YEARS } from './basics/time/duration.ts'
import type { Headers } from './message.ts'

/**
 * All options of a message but its dedupe key, in the order of the arguments of `sluice_private.insert_message`. Its
 * checks, the parameters and columns of inserts, bodies over HTTP, flags and schedules follow from it.
 */
export const MESSAGE_OPTIONS = {
  headers: { kind: 'object', byDefault: '{}', value: 'json', help: 'metadata, as a JSON object' },
  type: { kind: 'type', value: 'type', help: 'the type, such as order.paid' },
  schemaVersion: {
    kind: 'count',
    sql: 'integer',
    least: 1,
    most: LARGEST_INTEGER,
    byDefault: 1,
    value: 'version',
    help: "the version of the payload's schema",
  },
  orderingKey: {
    kind: 'text',
    value: 'key',
    help: 'messages with the same key are handled one at a time, in order',
  },
  priority: {
    kind: 'count',
    sql: 'smallint',
    least: 0,
    most: 9,
    byDefault: 5,
    value: 'number',
    help: 'which messages go first: 0 before 9',
  },
  dueAt: { kind: 'instant', value: 'time', help: 'when it is due', computed: true },
  delay: {
    kind: 'time',
    sql: 'double precision',
    least: '0ms',
    most: HUNDRED_YEARS,
    value: 'duration',
    help: 'due this long after the enqueue',
    computed: true,
  },
  maxAttempts: {
    kind: 'count',
    sql: 'integer',
    least: 1,
    most: LARGEST_INTEGER,
    value: 'count',
    help: 'the number of failed attempts before it becomes a dead letter',
  },
  ttl: {
    kind: 'time',
    sql: 'double precision',
    least: '1ms',
    most: HUNDRED_YEARS,
    value: 'duration',
    help: 'its time to live, counted from the due time',
    computed: true,
  },
  retryPolicy: { kind: 'policy', value: 'name', help: 'the name of a retry policy' },
  lease: {
    kind: 'time',
    sql: 'integer',
    least: '1s',
    most: '24h',
    value: 'duration',
    help: 'its lease in leased mode, 1s to 24h',
  },
  tenant: { kind: 'text', value: 'tenant', help: 'its tenant' },
} as const satisfies Readonly<Record<Exclude<keyof EnqueueOptions, 'dedupe'>, MessageOption>>

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
   * Due this long after the insert, by the database's clock. A delay of more than 1.2 s wakes no worker: with a
   * `pollInterval` above a second, a sleeping worker may begin the message up to one poll late. @default 0
   */
  readonly delay?: Duration | undefined
  /** Due at this instant, by the database's clock; at once if it has passed. Not together with `delay`. */
  readonly dueAt?: Date | undefined
  /** The number of failed attempts after which the message becomes a dead letter, from 1. Default: the pipeline's. */
  readonly maxAttempts?: number | undefined
  /**
   * Time to live, counted from when the message is first due: 1 ms to 100 years. Then it expires, unless it is in
   * flight. Default: the queue's setting, or unlimited.
   */
  readonly ttl?: Duration | undefined
  /**
   * The name of a retry policy of `createSluice({ retryPolicies })`: 1 to 100 bytes. Default: as the queue or pipeline says.
   */
  readonly retryPolicy?: string | undefined
  /** Its lease in leased mode, 1 s to 24 h. Default: as the pipeline says. */
  readonly lease?: Duration | undefined
  /**
   * The tenant of the message, where a queue shares its workers out among tenants: 1 to 255 bytes. Not with
   * `orderingKey`. Default none.
   */
  readonly tenant?: string | undefined
  /** With a dedupe key the answer says what became of the message: see {@link DedupedOptions}. */
  readonly dedupe?: undefined
}

/** The options of one message with a dedupe key. */
export interface DedupedOptions extends Omit<EnqueueOptions, 'dedupe'> {
  /** Its dedupe key: an enqueue with a key that is taken does not simply add another message. */
  readonly dedupe: Dedupe
}

/**
 * The options of one message, whose dedupe key is of the type `Key`; `undefined`: there is none. One signature takes both,
 * so a wrong option has one error. The compiler infers `Key` from the first branch, and checks the options by the others.
 */
export type OptionsWith<Key extends Dedupe | undefined> = [Key] extends [never]
  ? { readonly dedupe: Key }
  : Key extends Dedupe
    ? DedupedOptions
    : EnqueueOptions

/** A dedupe key, and what an enqueue does that finds it taken. */
export interface Dedupe {
  /** 1 to 255 bytes. It is taken while a message of the queue has it that is neither handled nor dead. */
  readonly key: string
  /**
   * How long the key stays taken after the message has succeeded, 1 ms to 100 years; with `throttle`, which needs it,
   * after the message was enqueued. Default: no longer than the message is there.
   */
  readonly for?: Duration | undefined
  /**
   * What to do when the key is taken:
   * - `reject`: nothing.
   * - `update`: give the message the new content, unless it is in flight.
   * - `requeue`: the same; while it is in flight, or its key is kept after success, it runs once more with the new content,
   *   after that one.
   * - `debounce`: as `requeue`, and a waiting message is due `delay` after the last call.
   * - `throttle`: nothing; the key is taken for the time `for` after the enqueue.
   *
   * @default 'reject'
   */
  readonly onDuplicate?: OnDuplicate | undefined
}

/** What an enqueue does that finds its dedupe key taken. */
export const ON_DUPLICATE = ['reject', 'update', 'requeue', 'debounce', 'throttle'] as const
/** One of {@link ON_DUPLICATE}. */
export type OnDuplicate = (typeof ON_DUPLICATE)[number]

/** What becomes of an enqueue with a dedupe key. */
export const ENQUEUE_OUTCOMES = ['added', 'duplicate', 'updated', 'requeued', 'debounced'] as const

/** What an option is: `count` an integer, `text` of 1 to 255 bytes, `time` a duration, which is stored in milliseconds. */
export type MessageOption = {
  /** Null if it is left out. */
  readonly byDefault?: string | number
  /** What its value is called on the command line. */
  readonly value: string
  /** For the command line and HTTP. */
  readonly help: string
  /** It has no column: the database works out due_at and expires_at. */
  readonly computed?: true
} & (
  | { readonly kind: 'object' | 'type' | 'text' | 'policy' | 'instant' }
  | { readonly kind: 'count'; readonly sql: string; readonly least: number; readonly most: number }
  | { readonly kind: 'time'; readonly sql: string; readonly least: Duration; readonly most: Duration }
)

export type OptionName = keyof typeof MESSAGE_OPTIONS
type OptionTable = typeof MESSAGE_OPTIONS

/** What an option is called in a row: `ttlMs`, `maxAttempts`. */
type RowName<Name extends OptionName> = OptionTable[Name]['kind'] extends 'time' ? `${Name}Ms` : Name
type RowValue<Option extends MessageOption> =
  | (Option['kind'] extends 'count' | 'time' ? number : string)
  | (Option extends { readonly byDefault: unknown } ? never : null)

/** The options of a row: JSON as text, instants in ISO 8601. Null: as the queue or the pipeline says, or none. */
export type RowOptions = { readonly [Name in OptionName as RowName<Name>]: RowValue<OptionTable[Name]> }

interface NamedOption<Name extends OptionName> {
  readonly name: Name
  readonly rowName: keyof RowOptions
  readonly option: MessageOption
}

/** {@link MESSAGE_OPTIONS} as a list. */
export const OPTIONS: readonly NamedOption<OptionName>[] = Object.entries<MessageOption>(MESSAGE_OPTIONS).map(
  ([name, option]) =>
    ({ name, rowName: option.kind === 'time' ? `${name}Ms` : name, option }) as NamedOption<OptionName>,
)

/** The options that a schedule gives to its messages: it says when they are due. */
export const SCHEDULED_OPTIONS = OPTIONS.filter(
  (option): option is NamedOption<Exclude<OptionName, 'dueAt'>> => option.name !== 'dueAt',
)
