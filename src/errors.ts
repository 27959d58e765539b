/** Every code that a {@link SluiceError} can carry. Codes are stable: branch on them, not on the message's words. */
export const ERROR_CODES = [
  'OPTION_INVALID',
  'QUEUE_NAME_INVALID',
  'QUEUE_UNKNOWN',
  'STREAM_NAME_INVALID',
  'STREAM_UNKNOWN',
  'STREAM_PARTITIONS_FIXED',
  'PAYLOAD_INVALID',
  'PAYLOAD_TOO_LARGE',
  'PAYLOAD_SCHEMA',
  'EXECUTOR_UNKNOWN',
  'NOT_IN_TRANSACTION',
  'SCHEMA_MISSING',
  'SCHEMA_TOO_OLD',
  'SCHEMA_TOO_NEW',
  'SCHEMA_UNRELEASED',
  'SERVER_TOO_OLD',
  'NODE_TOO_OLD',
  'PRIVILEGE_MISSING',
  'TABLE_LOCKED',
  'UNREACHABLE',
  'TRANSACTION_CONTROL',
  'TRANSACTION_CLOSED',
  'TRANSACTION_FAILED',
  'COMMIT_FAILED',
  'ROWS_MISSING',
  'HANDLER_TIMEOUT',
  'LEASE_LOST',
  'CANCELLED',
  'CLAIM_OVER',
  'CLAIM_UNKNOWN',
  'SCHEDULE_UNKNOWN',
  'ENDPOINT_UNKNOWN',
  'GROUP_UNKNOWN',
  'GROUP_HAS_DEFERRED',
  'GROUP_LOST_EVENTS',
  'PIPELINE_STARTED',
  'IN_HANDLER',
  'STOPPED',
] as const

/** One of {@link ERROR_CODES}. */
export type ErrorCode = (typeof ERROR_CODES)[number]

/**
 * The error that Sluice throws: with a stable {@link SluiceError.code | code}, a message that says what was expected,
 * what was received and what to do, and the `cause` if there is one.
 *
 * @example
 * try {
 *   await sluice.enqueue(pool, 'emails', payload)
 * } catch (error) {
 *   if (isSluiceError(error, 'NOT_IN_TRANSACTION')) …
 * }
 */
export class SluiceError extends Error {
  /** Stable: branch on it. */
  readonly code: ErrorCode

  constructor(code: ErrorCode, message: string, options?: { readonly cause?: unknown }) {
    super(message, options)
    this.name = 'SluiceError'
    this.code = code
  }
}

/** Whether `error` is a {@link SluiceError}, and, if a code is given, one with that code. */
export function isSluiceError(error: unknown, code?: ErrorCode): error is SluiceError {
  try {
    return error instanceof SluiceError && (code === undefined || error.code === code)
  } catch {
    // A proxy whose traps throw.
    return false
  }
}

/** "`what`: expected `wanted`, received `received`. `remedy`": the form of every error about input. */
export function expected(
  code: ErrorCode,
  what: string,
  wanted: string,
  received: unknown,
  remedy?: string,
): SluiceError {
  const sentence = `${what}: expected ${wanted}, received ${describe(received)}`
  return new SluiceError(code, remedy === undefined ? sentence : `${sentence}. ${remedy}`)
}

/** The message of each STOPPED error, by what was stopped. */
export const STOPPED = {
  sluice: 'This Sluice has been stopped and does not start again. Make another with createSluice, or call stop() later',
  'sluice before it had connected': 'The Sluice was stopped before it had connected',
  pipeline: 'The pipeline was stopped. The message is available to other workers',
  'pipeline before it had started': 'The pipeline was stopped before it had started',
  subscriber: 'The subscriber has left. The message is available to other workers',
} as const

export function stopped(what: keyof typeof STOPPED): SluiceError {
  return new SluiceError('STOPPED', STOPPED[what])
}

/** The message was leased, and is not any more: what its handler still returns is ignored. */
export function leaseLost(queue: string, id: string, cancelled = false): SluiceError {
  const what = `The lease of message ${id} of queue ${queue} is lost`
  const why = cancelled
    ? ': the message was cancelled. What its handler still returns is ignored'
    : '. The worker that has the message now settles it'
  return new SluiceError('LEASE_LOST', `${what}${why}`)
}

/** A message was cancelled while its handler ran in a transaction. */
export function messageCancelled(queue: string, id: string): SluiceError {
  const what = `Message ${id} of queue ${queue} was cancelled while its handler ran`
  return new SluiceError('CANCELLED', `${what}. What the handler has written through tx is rolled back`)
}

/** Retention, or a trim, removed events before a group had read them. It reads nothing until it is moved. */
export function groupLostEvents(stream: string, group: string, from: number, to: number): SluiceError {
  const what = `Group ${group} of stream ${stream} lost events, from position ${from} to ${to}, before it had read them`
  return new SluiceError('GROUP_LOST_EVENTS', `${what}. Move it with sluice.operate.groups.seek, or sluice group seek`)
}

/**
 * A short string for any value. Strings are quoted and shortened to 80 characters, unless they may hold a password;
 * objects are named by their class.
 */
export function describe(value: unknown): string {
  switch (typeof value) {
    case 'string':
      if (MAY_HOLD_A_PASSWORD.test(value)) return 'a connection string'
      return JSON.stringify(value.length > 80 ? `${value.slice(0, 80)}…` : value)
    case 'bigint':
      return `${value}n`
    case 'function':
      return `a function${value.name ? ` (${value.name})` : ''}`
    case 'object':
      return value === null ? 'null' : describeObject(value)
    default:
      return String(value)
  }
}

function describeObject(value: object): string {
  if (Array.isArray(value)) return `an array of ${value.length}`
  const name: unknown = value.constructor?.name
  if (typeof name !== 'string' || name === 'Object') return 'an object'
  return /^[AEIO]/.test(name) ? `an ${name}` : `a ${name}`
}

/** A URL, or `host=db password=…`, that was given where something else was expected. */
const MAY_HOLD_A_PASSWORD = /:\/\/|password\s*=/i

/**
 * The text of an error that is stored: its name, message and causes, without stack, at most 4,000 characters. Never
 * throws, whatever it is given, because a second error at that point would undo a whole batch.
 */
export function errorText(error: unknown): string {
  const parts = [lineOf(error)]
  for (let at = causeOf(error); at !== undefined && parts.length < 5; at = causeOf(at)) parts.push(lineOf(at))
  // A NUL cannot be stored as text, and an error may quote any input.
  return parts.join(' — caused by ').replaceAll('\0', '\uFFFD').slice(0, MOST_TEXT).toWellFormed()
}

const MOST_TEXT = 4_000

function lineOf(error: unknown): string {
  try {
    if (typeof error === 'string') return error.slice(0, MOST_TEXT)
    // Not its JSON: the thrown value may be the payload, which must not get into events.
    if (!(error instanceof Error)) return describe(error)
    // Shortened before they are joined: a string of the greatest length cannot grow.
    return `${String(error.name).slice(0, MOST_TEXT)}: ${String(error.message).slice(0, MOST_TEXT)}`
  } catch {
    return 'an error that cannot be read'
  }
}

/** Any thrown value as an Error. */
export function toError(thrown: unknown): Error {
  try {
    if (thrown instanceof Error) return thrown
  } catch {
    // A proxy whose traps throw.
  }
  return new Error(errorText(thrown), { cause: thrown })
}

/**
 * Of an AggregateError, as from a connection that was tried at several addresses, the first: its own message is empty.
 */
function causeOf(error: unknown): unknown {
  try {
    if (error instanceof AggregateError) return error.cause ?? error.errors[0]
    return error instanceof Error ? error.cause : undefined
  } catch {
    return undefined
  }
}
