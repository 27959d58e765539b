import { JetStreamApiError } from '@nats-io/jetstream'
import { InvalidSubjectError, type Msg, PermissionViolationError } from '@nats-io/transport-node'
import type { Verdict } from '../relay/destination.ts'
import { reasonOf, unavailable } from '../relay/unavailable.ts'
import { withRemedy } from './remedy.ts'

/**
 * What the answer to a publication says. The first one counts, and a service that listens to the subject may answer before the
 * stream, or where no stream has the subject.
 *
 * @param expected the stream that must store the message; undefined: any
 */
export function verdictOfAnswer(answer: Msg, expected: string | undefined): Verdict {
  const { stream, seq, error } = fieldsOf(answer)
  if (error !== undefined) return verdictOfApiError(error)
  const isOfStream = typeof stream === 'string' && typeof seq === 'number' && seq > 0
  return isOfStream && (expected === undefined || stream === expected) ? CONFIRMED : NOT_OF_STREAM
}

/** What an error says: about the message, or only about the server and the way to it. */
export function verdictOf(thrown: unknown): Verdict {
  const reason = withRemedy(thrown)
  const kind = kindOf(thrown)
  return kind === undefined ? unavailable(reason) : { kind, error: reasonOf(reason) }
}

/** Undefined: it says nothing about the message. */
function kindOf(thrown: unknown): 'refused' | 'failed' | undefined {
  if (thrown instanceof JetStreamApiError) return KINDS[thrown.code]
  if (thrown instanceof InvalidSubjectError) return 'refused'
  return thrown instanceof PermissionViolationError && thrown.operation === 'publish' ? 'failed' : undefined
}

/** Nobody listens to the subject: the server itself says so. */
export function isNoResponse({ data, headers }: Msg): boolean {
  return data.byteLength === 0 && headers?.code === 503
}

/** The fields of an answer that count. */
interface Fields {
  readonly stream?: unknown
  readonly seq?: unknown
  readonly error?: unknown
}

function fieldsOf(answer: Msg): Fields {
  try {
    const value: unknown = answer.json()
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}

/** An error of a service may look like one of the server, but for the code. */
function verdictOfApiError(given: unknown): Verdict {
  const { err_code: code, description } = typeof given === 'object' && given !== null ? (given as ApiError) : {}
  if (typeof code !== 'number' || typeof description !== 'string') return NOT_OF_STREAM
  return { kind: KINDS[code] ?? 'unavailable', error: description }
}

interface ApiError {
  readonly err_code?: unknown
  readonly description?: unknown
}

/** By the server's error codes. A stream that is full is none of these: all of its messages wait for room. */
const KINDS: Readonly<Record<number, 'refused' | 'failed'>> = {
  // The stream's max_msg_size.
  10054: 'refused',
  // No stream has the subject.
  10059: 'failed',
  // Another stream has it than the one that is expected.
  10060: 'failed',
  // The headers have more than 65,535 bytes.
  10097: 'refused',
  // The stream is sealed.
  10109: 'failed',
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
const NOT_OF_STREAM: Verdict = { kind: 'failed', error: 'the answer is not from a stream' }
