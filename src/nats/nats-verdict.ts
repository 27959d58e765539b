import { JetStreamApiError } from '@nats-io/jetstream'
import { InvalidSubjectError, NoRespondersError, PermissionViolationError, RequestError } from '@nats-io/transport-node'
import { errorText } from '../errors.ts'
import type { Verdict } from '../relay/destination.ts'

/** What an error of a publication says: about the message, or only about the server and the way to it. */
export function verdictOf(thrown: unknown): Verdict {
  const error = errorText(thrown)
  if (thrown instanceof JetStreamApiError) return { kind: KINDS[thrown.code] ?? 'unavailable', error }
  if (thrown instanceof InvalidSubjectError) return { kind: 'refused', error }
  const cause = thrown instanceof Error ? thrown.cause : undefined
  if (thrown instanceof PermissionViolationError || cause instanceof PermissionViolationError)
    return { kind: 'failed', error }
  return { kind: 'unavailable', error }
}

/** By the server's error codes. A stream that is full is none of these: all of its messages wait for room. */
const KINDS: Readonly<Record<number, Verdict['kind']>> = {
  // The stream's max_msg_size.
  10054: 'refused',
  // No stream has the subject.
  10059: 'failed',
  // Another stream has it than the one that is expected.
  10060: 'failed',
  // The stream is sealed.
  10109: 'failed',
}

/** Nobody listens to the subject. */
export function isNoResponse(thrown: unknown): boolean {
  const cause = thrown instanceof Error ? thrown.cause : undefined
  return [thrown, cause].some(
    (error) => error instanceof NoRespondersError || (error instanceof RequestError && error.isNoResponders()),
  )
}
