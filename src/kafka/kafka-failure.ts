import {
  AuthenticationError,
  MultipleErrors,
  NetworkError,
  ProtocolError,
  TimeoutError,
  UserError,
} from '@platformatic/kafka'
import { errorsIn, unavailableCause } from '../basics/unavailable-cause.ts'
import { errorText, SluiceError } from '../errors.ts'

/** An error of the client in words: OPTION_INVALID if a server answers, and waits for a change by hand. */
export function failureOf(thrown: unknown): Error {
  const words = reasonOf(thrown)
  return isOfSettings(thrown)
    ? new SluiceError('OPTION_INVALID', words, { cause: thrown })
    : new Error(words, { cause: thrown })
}

/** An error in words, with its causes. */
export function reasonOf(thrown: unknown): string {
  const error = leafOf(thrown)
  if (!(error instanceof Error)) return errorText(error)
  const said = error instanceof ProtocolError ? `${String(error.apiId)}: ${error.message}` : error.message
  return error.cause === undefined ? said : `${said} ${reasonOf(error.cause)}`
}

/** Of several errors, and of retries, there is a tree: the first one that waits for a change by hand, or else the first. */
export function leafOf(thrown: unknown): unknown {
  if (!(thrown instanceof MultipleErrors)) return thrown
  const errors: readonly unknown[] = thrown.errors
  return errors.length === 0 ? thrown : leafOf(errors.find(isOfSettings) ?? errors[0])
}

function isOfSettings(thrown: unknown): boolean {
  return unavailableCause(thrown) === 'settings' || errorsIn(thrown).some(isAnswer)
}

function isAnswer(error: Error): boolean {
  if (error instanceof ProtocolError) return OF_SETTINGS.has(error.apiId)
  // The client says so as well when the connection ends before it has logged in.
  if (error instanceof AuthenticationError) return !errorsIn(error).some(isOfNetwork)
  // Others are about a client that is closed, or has lost a server.
  return error instanceof UserError && /^Unknown topic /.test(error.message)
}

function isOfNetwork(error: Error): boolean {
  return error instanceof NetworkError || error instanceof TimeoutError
}

/** By the errors of the protocol. An unknown partition is none: its leader may change, or its topic be made just now. */
const OF_SETTINGS: ReadonlySet<unknown> = new Set([
  'SASL_AUTHENTICATION_FAILED',
  'UNSUPPORTED_SASL_MECHANISM',
  'ILLEGAL_SASL_STATE',
  'SECURITY_DISABLED',
  'CLUSTER_AUTHORIZATION_FAILED',
  'GROUP_AUTHORIZATION_FAILED',
  'TOPIC_AUTHORIZATION_FAILED',
  'INVALID_GROUP_ID',
  'INVALID_SESSION_TIMEOUT',
  'INCONSISTENT_GROUP_PROTOCOL',
  'INVALID_TOPIC_EXCEPTION',
  'POLICY_VIOLATION',
])
