/** An answer with an error. Thrown, so that no step has to pass it on. */
export class Refusal extends Error {
  readonly status: 400 | 403 | 404 | 405 | 409 | 413 | 415 | 500 | 503
  readonly title: string

  constructor(status: Refusal['status'], title: string, text: string, options?: { readonly cause?: unknown }) {
    super(text, options)
    this.name = 'Refusal'
    this.status = status
    this.title = title
  }
}

/** The answer to any error. What the server says may name hosts, users or rows: it is for the log, and not for the page. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error
  const { code, message, cause } = error as { readonly [key in 'code' | 'message' | 'cause']?: unknown }
  const isOfSluice = error instanceof Error && error.name === 'SluiceError' && typeof code === 'string'
  if (!isOfSluice) return new Refusal(...FAILED, HIDING, { cause: error })
  const [status, title] = BY_CODE[code] ?? FAILED
  if (code === 'QUEUE_UNKNOWN' && cause === undefined)
    return new Refusal(status, NOT_DEFINED, `${String(message)}. ${DEFINING}`, { cause: error })
  // It names a session, and no row.
  if (status < 500 || code === 'TABLE_LOCKED') return new Refusal(status, title, String(message), { cause: error })
  return new Refusal(status, title, status === 503 ? UNREACHABLE : HIDING, { cause: error })
}

const FAILED = [500, 'This failed'] as const
const HIDING = 'The log of the process that serves this page has the reason.'
const NOT_DEFINED = 'This application does not define this queue'
const DEFINING =
  'The overview lists all queues of the database. To open those of other applications, serve the page from a Sluice without the option queues.'
const UNREACHABLE = 'The database cannot be reached, or this process is stopping. Try again in a moment.'

/** By the codes of SluiceError. */
const BY_CODE: Readonly<Record<string, readonly [Refusal['status'], string]>> = {
  OPTION_INVALID: [400, 'This cannot be done'],
  QUEUE_NAME_INVALID: [404, 'No such queue'],
  QUEUE_UNKNOWN: [404, 'No such queue'],
  STREAM_NAME_INVALID: [404, 'No such stream'],
  STREAM_UNKNOWN: [404, 'No such stream'],
  GROUP_UNKNOWN: [404, 'No such group'],
  SCHEDULE_UNKNOWN: [404, 'No such schedule'],
  CLAIM_UNKNOWN: [404, 'No such claim'],
  CLAIM_OVER: [409, 'The claim is over'],
  GROUP_HAS_DEFERRED: [409, 'This cannot be done now'],
  PRIVILEGE_MISSING: [403, 'The login lacks a privilege'],
  TABLE_LOCKED: [503, 'A table is locked'],
  ROWS_MISSING: [409, 'Nothing was changed'],
  UNREACHABLE: [503, 'No connection'],
  STOPPED: [503, 'No connection'],
}
