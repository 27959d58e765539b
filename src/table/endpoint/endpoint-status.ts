import { bool, date, nullable, number, shape, text, texts, word } from '../shape.ts'
import { type Execute, statement, textsOf } from '../statement.ts'

/** Whether an endpoint gets anything. */
export const ENDPOINT_STATES = ['enabled', 'disabled', 'gone'] as const
/**
 * `enabled`; `disabled`: its messages wait; or `gone`: it has answered 410, and its messages become dead letters.
 */
export type EndpointState = (typeof ENDPOINT_STATES)[number]

/** An endpoint and what became of its requests: a row of `sluice.endpoints`. It has no secrets. */
export interface EndpointStatus {
  /** The queue that has its messages. */
  readonly queue: string
  /** Its name in the queue: the tenant of its messages or, if it is ordered, their ordering key. */
  readonly name: string
  /** Whose it is; null: it gets what is sent without an owner. */
  readonly owner: string | null
  /** The address of its requests. */
  readonly url: string
  /** The types of event that it gets; null: all. */
  readonly types: readonly string[] | null
  /** The names of the headers that its requests have beside those of webhooks. */
  readonly headerNames: readonly string[]
  /** Whether it gets one event after another. */
  readonly ordered: boolean
  /** How many of its messages may be in flight; null: as many as the queue allows a tenant. */
  readonly concurrency: number | null
  /** Whether it gets anything. */
  readonly state: EndpointState
  /** When it was disabled; null: it is enabled. */
  readonly disabledAt: Date | null
  /** The person or login that disabled it; of a worker its login. */
  readonly disabledBy: string | null
  /** The reason. */
  readonly disabledReason: string | null
  /** Nothing is sent before this instant, because the endpoint has asked for it. It may have passed. */
  readonly closedUntil: Date | null
  /** The first failure since the last success; null: the last attempt succeeded, or there was none. */
  readonly failingSince: Date | null
  /** How many requests were sent, or could not be. */
  readonly attempts: number
  /** How many were answered by a status from 200 to 299. */
  readonly successes: number
  /** The status of the last answer; null: the last attempt got none. */
  readonly lastStatus: number | null
  /** Why the last attempt failed, in its first 200 characters; null: it succeeded. */
  readonly lastError: string | null
  /** When the last attempt that succeeded ended. */
  readonly lastSuccessAt: Date | null
  /** When the last attempt that failed ended. */
  readonly lastFailureAt: Date | null
  /** Until when requests are signed by the old secret as well; null: by one alone. */
  readonly oldSecretUntil: Date | null
  /** When it was made. */
  readonly createdAt: Date
  /** When its definition was changed last. */
  readonly changedAt: Date
  /** The person or login that changed it. */
  readonly changedBy: string | null
}

/** Which endpoints to read; null: any. */
export interface EndpointMatch {
  readonly queue: string | null
  readonly name: string | null
  readonly owner: string | null
  readonly state: EndpointState | null
  readonly limit: number
}

/** Endpoints by queue and name. */
export async function readEndpoints(
  execute: Execute,
  { queue, name, owner, state, limit }: EndpointMatch,
): Promise<readonly EndpointStatus[]> {
  return (await execute(ENDPOINTS, [queue, name, owner, state, limit])).map(ENDPOINT.read)
}

const ENDPOINT = shape<EndpointStatus>({
  queue: text(),
  name: text(),
  owner: nullable.text(),
  url: text(),
  types: { ...texts(), read: (row, name) => (row[name] === null ? null : textsOf(row, name)) },
  headerNames: texts(),
  ordered: bool(),
  concurrency: nullable.number(),
  state: word<EndpointState>(),
  disabledAt: nullable.date(),
  disabledBy: nullable.text(),
  disabledReason: nullable.text(),
  closedUntil: nullable.date(),
  failingSince: nullable.date(),
  attempts: number(),
  successes: number(),
  lastStatus: nullable.number(),
  lastError: nullable.text(),
  lastSuccessAt: nullable.date(),
  lastFailureAt: nullable.date(),
  oldSecretUntil: nullable.date(),
  createdAt: date(),
  changedAt: date(),
  changedBy: nullable.text(),
})

const ENDPOINTS = statement(
  'operate_endpoints',
  `
SELECT ${ENDPOINT.columns('e')}
FROM sluice.endpoints e
WHERE ($1::text IS NULL OR e.queue = $1::text) AND ($2::text IS NULL OR e.name = $2::text)
  AND ($3::text IS NULL OR e.owner = $3::text) AND ($4::text IS NULL OR e.state = $4::text)
ORDER BY e.queue, e.name LIMIT $5::integer`,
)
