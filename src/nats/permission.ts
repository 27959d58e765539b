import { PermissionViolationError } from '@nats-io/transport-node'
import { SluiceError } from '../errors.ts'

/** An error of the client with what to permit, where the login lacks a permission. The server's text names the subject. */
export function withRemedy(error: unknown): unknown {
  const violation = violationOf(error)
  if (violation === undefined) return error
  return new SluiceError('OPTION_INVALID', `${violation.message}: ${REMEDIES[violation.operation]}`)
}

/** That of a request is the cause of another error. */
function violationOf(error: unknown): PermissionViolationError | undefined {
  for (let at = error; at instanceof Error; at = at.cause) if (at instanceof PermissionViolationError) return at
  return undefined
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
