import pg from 'pg'
import { orPrivilegeMissing } from '../connection/privilege.ts'
import { unreachable } from '../connection/unreachable.ts'
import { SluiceError } from '../errors.ts'
import { toError } from '../telemetry/events.ts'

/** The transaction of a batch was lost, and time is what helps. */
export class BatchLost extends Error {
  readonly messages: number

  constructor(cause: unknown, messages: number) {
    super('The transaction of a batch was lost', { cause })
    this.messages = messages
  }
}

/** What to tell a caller of a session that failed: an error of ours or of the server, or else that it was out of reach. */
export function reasonFor(thrown: unknown): unknown {
  const error = thrown instanceof BatchLost ? thrown.cause : thrown
  return error instanceof SluiceError || error instanceof pg.DatabaseError
    ? orPrivilegeMissing(error)
    : unreachable(error)
}

/** As an event says it. */
export function toReport(error: unknown): Error {
  return toError(orPrivilegeMissing(error))
}
