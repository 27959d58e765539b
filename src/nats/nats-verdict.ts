import { JetStreamApiError, type PubAck } from '@nats-io/jetstream'
import { InvalidSubjectError, NoRespondersError, PermissionViolationError, RequestError } from '@nats-io/transport-node'
import { errorText } from '../errors.ts'
import type { Verdict } from '../relay/destination.ts'

/**
 * What the answer to a publication says. The client takes the first one, and a service that listens to the subject may answer
 * before the stream, or where no stream has the subject.
 *
 * @param expected the stream that must store the message; undefined: any
 */
export function verdictOfAnswer({ stream, seq }: Partial<PubAck>, expected: string | undefined): Verdict {
  const isOfStream = typeof stream === 'string' && typeof seq === 'number' && seq > 0
  return isOfStream && (expected === undefined || stream === expected) ? CONFIRMED : NOT_OF_STREAM
}

/** What an error of a publication says: about the message, or only about the server and the way to it. */
export function verdictOf(thrown: unknown): Verdict {
  const error = errorText(thrown)
  if (thrown instanceof JetStreamApiError) return verdictOfCode(thrown.code, error)
  // The answer is no JSON, or no object: the client throws these when it reads it.
  if (thrown instanceof SyntaxError || thrown instanceof TypeError) return NOT_OF_STREAM
  if (thrown instanceof InvalidSubjectError) return { kind: 'refused', error }
  const cause = thrown instanceof Error ? thrown.cause : undefined
  if (thrown instanceof PermissionViolationError || cause instanceof PermissionViolationError)
    return { kind: 'failed', error }
  return { kind: 'unavailable', error }
}

/** An error of a service may look like one of the server, but for the code. */
function verdictOfCode(code: unknown, error: string): Verdict {
  return typeof code === 'number' ? { kind: KINDS[code] ?? 'unavailable', error } : NOT_OF_STREAM
}

/** By the server's error codes. A stream that is full is none of these: all of its messages wait for room. */
const KINDS: Readonly<Record<number, Verdict['kind']>> = {
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

/** Nobody listens to the subject. */
export function isNoResponse(thrown: unknown): boolean {
  const cause = thrown instanceof Error ? thrown.cause : undefined
  return [thrown, cause].some(
    (error) => error instanceof NoRespondersError || (error instanceof RequestError && error.isNoResponders()),
  )
}
