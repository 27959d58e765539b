import { dateOrNull, microseconds } from '../dates.ts'
import { type Execute, numberOrNull, statement, textOf, textOrNull } from '../statement.ts'
import type { EndpointState } from './endpoint-status.ts'

/** What a request to an endpoint needs. */
export interface CalledEndpoint {
  readonly name: string
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** The secrets that sign: the current one, and the old one while it is rotated out. */
  readonly secrets: readonly string[]
  readonly state: EndpointState
  /** For how long nothing may be sent; null: it may. */
  readonly closedMs: number | null
  /** The name of the database. */
  readonly source: string
  /** The database's time, in milliseconds since 1970. */
  readonly nowMs: number
}

/** The endpoints with these names, by name. */
export async function readCalledEndpoints(
  execute: Execute,
  queue: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, CalledEndpoint>> {
  const rows = await execute(CALLED, [queue, names])
  return new Map(
    rows.map((row) => {
      const name = textOf(row, 'name')
      const secrets = [textOf(row, 'secret'), textOrNull(row, 'old_secret')].filter((secret) => secret !== null)
      const headers = JSON.parse(textOf(row, 'headers')) as Readonly<Record<string, string>>
      const state = textOf(row, 'state') as EndpointState
      const closedMs = numberOrNull(row, 'closed_ms')
      const [url, source] = [textOf(row, 'url'), textOf(row, 'source')]
      const nowMs = numberOrNull(row, 'now_ms') ?? 0
      return [name, { name, url, headers, secrets, state, closedMs, source, nowMs }]
    }),
  )
}

/** What became of attempts of an endpoint: `status` and `error` of the last one. */
export interface AttemptsNote {
  readonly name: string
  /** Where they went: the endpoint may have another URL by now. */
  readonly url: string
  readonly attempts: number
  readonly successes: number
  /** Null: it had no answer. */
  readonly status: number | null
  /** Null: it succeeded. */
  readonly error: string | null
  /** For how long the endpoint wants nothing; null: it has not said so. */
  readonly closedMs: number | null
  /** Whether it has answered that it wants nothing more. */
  readonly gone: boolean
}

/** An endpoint that has changed by its attempts. */
export interface EndpointChange {
  readonly name: string
  readonly event: 'failing' | 'disabled'
  readonly failingSince: Date | null
  readonly reason: string
}

/** What came of noting. */
export interface Noted {
  /** Endpoints that are failing or disabled from now on. */
  readonly changes: readonly EndpointChange[]
  /** Notes that were not taken, because another transaction has locked the endpoint. */
  readonly locked: readonly Pick<AttemptsNote, 'name' | 'url'>[]
}

/**
 * Notes attempts. It waits for no lock.
 *
 * @param disableMs after how long of nothing but failures an endpoint is disabled; null: never
 */
export async function noteAttempts(
  execute: Execute,
  queue: string,
  notes: readonly AttemptsNote[],
  disableMs: number | null,
): Promise<Noted> {
  const stored = notes.map(({ closedMs, ...note }) => ({ ...note, closed_ms: closedMs }))
  const rows = await execute(NOTE, [queue, JSON.stringify(stored), disableMs])
  const isLocked = (row: (typeof rows)[number]) => textOf(row, 'event') === 'locked'
  const changes = rows
    .filter((row) => !isLocked(row))
    .map((row) => ({
      name: textOf(row, 'name'),
      event: textOf(row, 'event') === 'failing' ? ('failing' as const) : ('disabled' as const),
      failingSince: dateOrNull(row, 'failing_since'),
      reason: textOf(row, 'reason'),
    }))
  const locked = rows.filter(isLocked).map((row) => ({ name: textOf(row, 'name'), url: textOf(row, 'reason') }))
  return { changes, locked }
}

const CALLED = statement(
  'endpoints_to_call',
  `
SELECT e.name, e.url, e.headers::text AS headers, e.secret, e.old_secret, e.state, e.closed_ms, e.source, e.now_ms
FROM sluice_private.endpoints_to_call($1::text, $2::text[]) e`,
)

const NOTE = statement(
  'note_attempts',
  `
SELECT n.name, n.event, n.reason, ${microseconds('n.failing_since')} AS failing_since
FROM sluice_private.note_attempts($1::text, $2::text::jsonb, $3::double precision) n`,
)
