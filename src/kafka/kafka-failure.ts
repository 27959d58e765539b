import {
  AuthenticationError,
  MultipleErrors,
  NetworkError,
  ProtocolError,
  TimeoutError,
  UserError,
} from '@platformatic/kafka'
import { errorsIn, unavailableCause } from '../basics/errors/unavailable-cause.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { withAdvice } from '../basics/words/sentences.ts'
import { SluiceError } from '../errors.ts'

/** An error of the client in words: OPTION_INVALID with what to do if a server answers, and waits for a change by hand. */
export function failureOf(thrown: unknown): Error {
  const words = kafkaWordsOf(thrown)
  if (!isOfSettings(thrown)) return new Error(words, { cause: thrown })
  const remedy = errorsIn(leafOf(thrown))
    .map(remedyOf)
    .find((found) => found !== undefined)
  return new SluiceError('OPTION_INVALID', remedy === undefined ? words : withAdvice(words, remedy), { cause: thrown })
}

/** An error of the client in words, with its causes. Of several servers each is named, unless one waits for a change by hand. */
function kafkaWordsOf(thrown: unknown): string {
  const leaves = isOfSettings(thrown) ? [leafOf(thrown)] : leavesOf(thrown)
  return [...new Set(leaves.map((leaf) => saidBy(leaf, MOST_CAUSES)))].join('; ')
}

function saidBy(error: unknown, causes: number): string {
  if (!(error instanceof Error)) return wordsOf(error)
  const [, address] = NOT_CONNECTED.exec(error.message) ?? []
  const said = error instanceof ProtocolError ? `${String(error.apiId)}: ${error.message}` : (address ?? wordsOf(error))
  if (error.cause === undefined || causes === 0) return address === undefined ? said : error.message
  return `${said.replace(/\.$/, '')}: ${saidBy(leafOf(error.cause), causes - 1)}`
}

/** As the client says of a server. */
const NOT_CONNECTED = /^Connection to (\S+) failed\.$/
/** An error may be its own cause. */
const MOST_CAUSES = 4

/** Of several errors, and of retries, there is a tree: the first one that waits for a change by hand, or else the first. */
export function leafOf(thrown: unknown): unknown {
  const leaves = leavesOf(thrown)
  return leaves.find(isOfSettings) ?? leaves[0]
}

function leavesOf(thrown: unknown): readonly unknown[] {
  if (!(thrown instanceof MultipleErrors) || thrown.errors.length === 0) return [thrown]
  return (thrown.errors as readonly unknown[]).flatMap(leavesOf)
}

function isOfSettings(thrown: unknown): boolean {
  return unavailableCause(thrown) === 'settings' || errorsIn(thrown).some(isAnswer)
}

function isAnswer(error: Error): boolean {
  if (error instanceof ProtocolError) return OF_SETTINGS.has(error.apiId)
  // The client says so as well when the connection ends before it has logged in.
  if (error instanceof AuthenticationError) return !errorsIn(error).some(isWithoutAnswer)
  // Others are about a client that is closed, or has lost a server.
  return error instanceof UserError && /^Unknown topic /.test(error.message)
}

function isWithoutAnswer(error: Error): boolean {
  return error instanceof NetworkError || error instanceof TimeoutError
}

function remedyOf(error: Error): string | undefined {
  if (error instanceof UserError && isAnswer(error)) return 'Make it, or correct the option topic'
  return error instanceof ProtocolError ? OF_SETTINGS.get(error.apiId) : undefined
}

const LOGIN = 'Correct connection: { sasl }'
const PERMIT = 'Permit it to the login, or correct connection: { sasl }'
const TOPIC = 'Correct the option topic'
/** By the errors of the protocol. An unknown partition is none: its leader may change, or its topic be made just now. */
const OF_SETTINGS: ReadonlyMap<unknown, string> = new Map([
  ['SASL_AUTHENTICATION_FAILED', LOGIN],
  ['UNSUPPORTED_SASL_MECHANISM', LOGIN],
  ['ILLEGAL_SASL_STATE', LOGIN],
  ['SECURITY_DISABLED', LOGIN],
  ['CLUSTER_AUTHORIZATION_FAILED', PERMIT],
  ['GROUP_AUTHORIZATION_FAILED', PERMIT],
  ['TOPIC_AUTHORIZATION_FAILED', PERMIT],
  ['INVALID_GROUP_ID', 'Correct the option group'],
  ['INVALID_SESSION_TIMEOUT', 'Correct the option sessionTimeout'],
  ['INCONSISTENT_GROUP_PROTOCOL', 'Name a group whose other members share partitions out by range or roundrobin'],
  ['INVALID_TOPIC_EXCEPTION', TOPIC],
  ['POLICY_VIOLATION', 'Look at the policies of the cluster'],
])
