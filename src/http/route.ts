import type { Sluice } from '../sluice.ts'
import type { HttpAction } from './authorize.ts'
import { checkerOf } from './checker.ts'
import type { JsonSchema, ValueOf } from './json-schema.ts'
import type { HttpStatus } from './problem.ts'

/** One route: what the router, the handler and the OpenAPI document need of it. */
export interface HttpRoute {
  /** Its `operationId` in the document. */
  readonly name: string
  readonly method: HttpMethod
  /** With the parameters `{queue}` and `{id}`. */
  readonly path: string
  readonly action: HttpAction
  readonly summary: string
  readonly body: JsonSchema | undefined
  readonly answers: readonly AnswerForm[]
  /** The errors that only this route has. */
  readonly problems: readonly HttpStatus[]
  /** @throws SluiceError, Problem */
  run(call: Call, body: unknown): Promise<Answer>
}

export type HttpMethod = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A request that was let in. */
export interface Call {
  readonly sluice: Sluice
  /** '' in routes without a queue. */
  readonly queue: string
  /** '' in routes without an id. */
  readonly id: string
  /** Aborts when the client disconnects. */
  readonly signal: AbortSignal
  /** Reports why a part of the request failed, although the answer is 200. */
  failedInPart(error: unknown): void
}

export interface Answer {
  readonly status: number
  /** JSON text, because messages are sent as they are stored. Absent: no content. */
  readonly body?: string
  readonly headers?: Readonly<Record<string, string>>
}

export interface AnswerForm {
  readonly status: number
  readonly description: string
  /** Absent: no content. */
  readonly schema?: JsonSchema
  readonly headers?: Readonly<Record<string, JsonSchema>>
}

/** A route without a body: a GET or a DELETE. A POST has one, because only its content type blocks requests from pages of other sites. */
export function route(given: RouteWithoutBody): HttpRoute {
  return { problems: [], ...given, body: undefined }
}

/** A route with a body. An empty body is an empty object: fine if no property is required. */
export function routeWithBody<const Schema extends JsonSchema>(given: RouteWithBody<Schema>): HttpRoute {
  const check = checkerOf<Schema>(given.body)
  return {
    problems: [],
    ...given,
    run: async (call, body = {}) => given.run(call, check(body)),
  }
}

interface RouteWithoutBody
  extends Omit<HttpRoute, 'body' | 'problems' | 'method'>,
    Partial<Pick<HttpRoute, 'problems'>> {
  readonly method: 'GET' | 'DELETE'
}

interface RouteWithBody<Schema>
  extends Omit<HttpRoute, 'body' | 'problems' | 'run'>,
    Partial<Pick<HttpRoute, 'problems'>> {
  readonly body: Schema & JsonSchema
  run(call: Call, body: ValueOf<Schema>): Promise<Answer>
}
