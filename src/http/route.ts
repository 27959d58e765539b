import type { Sluice } from '../sluice.ts'
import type { HttpAction } from './authorize.ts'
import { checkerOf } from './checker.ts'
import type { JsonSchema, ValueOf } from './json-schema.ts'
import type { Status } from './problem.ts'

/** One route: what the router, the handler and the OpenAPI document need of it. */
export interface Route {
  /** Its `operationId` in the document. */
  readonly name: string
  readonly method: Method
  /** With `{queue}` and `{id}` in place of what they stand for. */
  readonly path: string
  readonly action: HttpAction
  readonly summary: string
  readonly body: JsonSchema | undefined
  readonly answers: readonly AnswerForm[]
  /** The errors that only this route has. */
  readonly problems: readonly Status[]
  /** @throws SluiceError, Problem */
  run(call: Call, body: unknown): Promise<Answer>
}

export type Method = 'GET' | 'POST' | 'PATCH' | 'DELETE'

/** A request that was let in. */
export interface Call {
  readonly sluice: Sluice
  /** '' in routes without a queue. */
  readonly queue: string
  /** '' in routes without an id. */
  readonly id: string
  /** Aborted when the client has gone away. */
  readonly signal: AbortSignal
  /** Reports why a part of the request failed, which an answer of 200 does not explain. */
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

/** A route without a body: a GET or a DELETE. A POST has one, because only its type keeps the pages of other sites away. */
export function route(given: RouteWithoutBody): Route {
  return { problems: [], ...given, body: undefined }
}

/** A route with a body. An empty body is an empty object, so it does if no property is required. */
export function routeWithBody<const Schema extends JsonSchema>(given: RouteWithBody<Schema>): Route {
  const check = checkerOf<Schema>(given.body)
  return {
    problems: [],
    ...given,
    run: async (call, body = {}) => given.run(call, check(body)),
  }
}

interface RouteWithoutBody extends Omit<Route, 'body' | 'problems' | 'method'>, Partial<Pick<Route, 'problems'>> {
  readonly method: 'GET' | 'DELETE'
}

interface RouteWithBody<Schema> extends Omit<Route, 'body' | 'problems' | 'run'>, Partial<Pick<Route, 'problems'>> {
  readonly body: Schema & JsonSchema
  run(call: Call, body: ValueOf<Schema>): Promise<Answer>
}
