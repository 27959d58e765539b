import { JetStreamApiError } from '@nats-io/jetstream'
import {
  AuthorizationError,
  type NatsConnection,
  PermissionViolationError,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node'
import { withAdvice } from '../basics/words/sentences.ts'
import { SluiceError } from '../errors.ts'

/**
 * An error of the client, as OPTION_INVALID with what to do where the server answers, and waits for a change by hand.
 *
 * @param stream that is there, and must store the message which the error is about; undefined: any
 */
export function withRemedy(error: unknown, stream?: string): unknown {
  const violation = violationOf(error)
  if (violation !== undefined)
    return new SluiceError('OPTION_INVALID', `${violation.message}: ${REMEDIES[violation.operation]}`, { cause: error })
  const remedy = remedyOf(error, stream)
  if (remedy === undefined || !(error instanceof Error)) return error
  return new SluiceError('OPTION_INVALID', withAdvice(error.message, remedy), { cause: error })
}

/** Calls `tell` with each permission that the server finds missing. That of a request for messages it says in no other way. */
export async function watchPermissions(
  connection: NatsConnection,
  tell: (violation: PermissionViolationError) => void,
): Promise<void> {
  for await (const status of connection.status())
    if (status.type === 'error' && status.error instanceof PermissionViolationError) tell(status.error)
}

/** That of a request is the cause of another error. */
function violationOf(error: unknown): PermissionViolationError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof PermissionViolationError) return at
  return undefined
}

function remedyOf(error: unknown, stream: string | undefined): string | undefined {
  if (error instanceof JetStreamApiError) {
    if (error.code === NO_STREAM && stream !== undefined)
      return `Stream ${JSON.stringify(stream)} does not have this subject: add it there, or correct the option subject`
    return REMEDIES_BY_CODE[error.code]
  }
  // A server that is slow gives up a login too.
  const isRefused = error instanceof AuthorizationError && !/timeout/i.test(error.message)
  return isRefused || error instanceof UserAuthenticationExpiredError
    ? 'Correct the login in connection, as in connection: { user, pass }'
    : undefined
}

/** The subject that an error is about. The client takes it from the server's text as it is, which has it quoted as in Go. */
export function subjectOf({ subject }: PermissionViolationError): string {
  return subject.replace(ESCAPED, (_, short: string | undefined, long: string | undefined, other: string) => {
    const code = short ?? long
    return code === undefined ? other : String.fromCodePoint(Number.parseInt(code, 16))
  })
}

const ESCAPED = /\\(?:u([0-9a-f]{4})|U([0-9a-f]{8})|(["\\]))/g

const REMEDIES = {
  publish: 'let the login publish there',
  // Nothing else is subscribed to.
  subscription:
    'answers come there. Let the login subscribe to _INBOX.>, or to <prefix>.> with connection: { inboxPrefix }',
} as const

/** The named stream is missing, or none has the subject. */
export const NO_STREAM = 10059

/** By the server's error codes. */
const REMEDIES_BY_CODE: Readonly<Record<number, string>> = {
  10014: 'Make the consumer, or correct the options stream and consumer',
  10039: 'Enable JetStream for the account of the login',
  [NO_STREAM]: 'Make the stream, or correct its name or subject in the options',
  10060: 'Correct the option stream, or give the stream the subject',
  10076: 'Enable JetStream in the server',
  10109: 'Publish to a stream that is not sealed',
}
