import { JetStreamApiError } from '@nats-io/jetstream'
import { InvalidSubjectError, type Msg, PermissionViolationError } from '@nats-io/transport-node'
import { allWordsOf } from '../basics/errors/all-words-of.ts'
import type { OutgoingMessage, Verdict } from '../relay/destination.ts'
import type { Target } from '../relay/target.ts'
import { unavailable } from '../relay/unavailable.ts'
import { NO_STREAM, withRemedy } from './remedy.ts'

/** Where a relay publishes. */
export interface Place {
  readonly subject: Target
  /** The stream that must store the messages; undefined: any. */
  readonly stream: string | undefined
}

/**
 * What the answer to a publication says. The first one counts, and a service that listens to the subject may answer before the
 * stream, or where no stream has the subject.
 */
export function verdictOfAnswer(answer: Msg, outgoing: OutgoingMessage, place: Place): Verdict {
  const { stream, seq, error } = fieldsOf(answer)
  const apiError = error === undefined ? undefined : apiErrorOf(error)
  if (apiError !== undefined) return verdictOf(apiError, outgoing, place)
  const isOfStream = typeof stream === 'string' && typeof seq === 'number' && seq > 0
  if (isOfStream && (place.stream === undefined || stream === place.stream)) return CONFIRMED
  return { kind: 'failed', error: place.subject.named(outgoing, 'the answer is not from a stream') }
}

/** What an error says: about the message, about its subject, or only about the server and the way to it. */
export function verdictOf(thrown: unknown, outgoing: OutgoingMessage, { subject, stream }: Place): Verdict {
  const reason = withRemedy(thrown, stream)
  const kind = kindOf(thrown)
  if (kind === 'closed') return subject.closed(outgoing, reason)
  return kind === undefined ? unavailable(reason) : { kind, error: allWordsOf(reason) }
}

/** Undefined: it says nothing about the message or its subject. */
function kindOf(thrown: unknown): 'refused' | 'closed' | undefined {
  if (thrown instanceof JetStreamApiError) return KINDS[thrown.code]
  if (thrown instanceof InvalidSubjectError) return 'refused'
  return thrown instanceof PermissionViolationError && thrown.operation === 'publish' ? 'closed' : undefined
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

/** An error of a service may look like one of the server, but for the code. Undefined: it is none of the server. */
function apiErrorOf(given: unknown): JetStreamApiError | undefined {
  const { err_code, description } = typeof given === 'object' && given !== null ? (given as GivenError) : {}
  if (typeof err_code !== 'number' || typeof description !== 'string') return undefined
  return new JetStreamApiError({ code: 0, err_code, description })
}

interface GivenError {
  readonly err_code?: unknown
  readonly description?: unknown
}

/** By the server's error codes. A stream that is full is none of these: all of its messages wait for room. */
const KINDS: Readonly<Record<number, 'refused' | 'closed'>> = {
  // The stream's max_msg_size.
  10054: 'refused',
  // No stream has the subject.
  [NO_STREAM]: 'closed',
  // Another stream has it than the one that is expected.
  10060: 'closed',
  // The headers have more than 65,535 bytes.
  10097: 'refused',
  // The stream is sealed.
  10109: 'closed',
}

const CONFIRMED: Verdict = { kind: 'confirmed' }
