import { type ErrorCode, SluiceError } from '../errors.ts'
import type { JsonSchema } from './json-schema.ts'

/** An answer with an error. Thrown, so that no step has to pass it on. */
export class Problem extends Error {
  readonly status: HttpStatus
  readonly code: ErrorCode | undefined
  readonly headers: Readonly<Record<string, string>>

  constructor(status: HttpStatus, detail: string, { code, headers = {}, cause }: ProblemOptions = {}) {
    super(detail, { cause })
    this.name = 'Problem'
    this.status = status
    this.code = code
    this.headers = headers
  }

  /** The answer to any error. The text of a server error may name hosts, users or rows: it is the `cause`. */
  static of(error: unknown): Problem {
    if (error instanceof Problem) return error
    if (!(error instanceof SluiceError)) return Problem.hiding(error)
    const { code, message } = error
    const status = STATUS_BY_CODE[code] ?? 500
    if (code === 'QUEUE_UNKNOWN' && error.cause === undefined) return new Problem(status, NO_QUEUE, { code })
    if (status < 500) return new Problem(status, message, { code })
    if (status !== 503) return Problem.hiding(error, code)
    return new Problem(status, UNAVAILABLE, { code, headers: { 'retry-after': '1' }, cause: error })
  }

  /** 500, without details for the client. */
  static hiding(cause: unknown, code?: ErrorCode): Problem {
    return new Problem(500, FAILED, { code, cause })
  }

  /** As a problem document: RFC 9457. */
  toResponse(): Response {
    const { status, code, message: detail, headers } = this
    const type = { 'content-type': 'application/problem+json', 'cache-control': 'no-store' }
    return new Response(JSON.stringify({ title: TITLES[status], status, code, detail }), {
      status,
      headers: { ...type, ...headers },
    })
  }
}

interface ProblemOptions {
  readonly code?: ErrorCode | undefined
  readonly headers?: Readonly<Record<string, string>>
  readonly cause?: unknown
}

/** The phrases of RFC 9110: the titles of problems without a type of their own. */
export const TITLES = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  410: 'Gone',
  413: 'Content Too Large',
  415: 'Unsupported Media Type',
  422: 'Unprocessable Content',
  500: 'Internal Server Error',
  503: 'Service Unavailable',
} as const

export type HttpStatus = keyof typeof TITLES

export const PROBLEM = {
  description: 'a problem document (RFC 9457)',
  type: 'object',
  required: ['title', 'status', 'detail'],
  properties: {
    title: { description: 'the phrase of the status', type: 'string' },
    status: { description: 'the status', type: 'integer' },
    code: { description: 'a stable code of Sluice, if it has one for this', type: 'string' },
    detail: { description: 'what was expected and what was received', type: 'string' },
  },
} as const satisfies JsonSchema

/**
 * The library's own error lists all queues, and a client may be allowed to know only one. An error of the server names only
 * the queue of the request.
 */
const NO_QUEUE = 'The queue does not exist'
const FAILED = 'The request failed. The log of the server has the reason'
const UNAVAILABLE = 'The queue cannot be reached. Try again'

const STATUS_BY_CODE: Readonly<Partial<Record<ErrorCode, HttpStatus>>> = {
  OPTION_INVALID: 422,
  PAYLOAD_INVALID: 422,
  PAYLOAD_SCHEMA: 422,
  PAYLOAD_TOO_LARGE: 413,
  QUEUE_NAME_INVALID: 404,
  QUEUE_UNKNOWN: 404,
  CLAIM_UNKNOWN: 404,
  CLAIM_OVER: 410,
  TABLE_LOCKED: 503,
  UNREACHABLE: 503,
  STOPPED: 503,
}
