import { booleanOf, type Execute, only, type Row, statement, textOf, textOrNull } from '../statement.ts'

/** What setting an endpoint has done. */
export type EndpointOutcome = 'created' | 'changed' | 'unchanged'

/** The columns of an endpoint that are chosen. */
export interface EndpointParams {
  readonly url: string
  readonly owner: string | null
  readonly types: readonly string[] | null
  readonly headers: Readonly<Record<string, string>>
  readonly ordered: boolean
  /** Null: as many as the queue allows a tenant. */
  readonly concurrency: number | null
  /** Null: the one that it has, or one that is made. */
  readonly secret: string | null
}

/** Makes an endpoint, or changes it. The secret is that of one that is created. */
export async function defineEndpoint(
  execute: Execute,
  queue: string,
  name: string,
  { url, owner, types, headers, ordered, concurrency, secret }: EndpointParams,
): Promise<{ readonly outcome: EndpointOutcome; readonly secret: string | null }> {
  const listed = types === null ? null : JSON.stringify(types)
  const most = concurrency === null ? null : String(concurrency)
  const params = [queue, name, url, owner, listed, JSON.stringify(headers), String(ordered), secret, most]
  const row = only(await execute(DEFINE, params))
  const outcome = textOf(row, 'outcome')
  if (outcome !== 'created' && outcome !== 'changed' && outcome !== 'unchanged')
    throw new TypeError(`outcome of an endpoint: ${outcome}`)
  return { outcome, secret: textOrNull(row, 'new_secret') }
}

/** Enables an endpoint. False: it is enabled already. */
export async function enableEndpoint(execute: Execute, queue: string, name: string): Promise<boolean> {
  return done(await execute(ENABLE, [queue, name]))
}

/** Disables an endpoint. False: it is disabled already. */
export async function disableEndpoint(
  execute: Execute,
  queue: string,
  name: string,
  reason: string | null,
): Promise<boolean> {
  return done(await execute(DISABLE, [queue, name, reason]))
}

/** Gives an endpoint a new secret, and returns it. The old one signs as well for so long. */
export async function rotateSecret(
  execute: Execute,
  queue: string,
  name: string,
  keepMs: number,
  secret: string | null,
): Promise<string> {
  return textOf(only(await execute(ROTATE, [queue, name, String(keepMs), secret])), 'secret')
}

/** Deletes an endpoint. False: there is none. */
export async function deleteEndpoint(execute: Execute, queue: string, name: string): Promise<boolean> {
  return done(await execute(DELETE, [queue, name]))
}

function done(rows: readonly Row[]): boolean {
  return booleanOf(only(rows), 'done')
}

// Texts are the only parameters that all accepted clients send alike.
const DEFINE = statement(
  'endpoint_define',
  `
SELECT e.outcome, e.new_secret
FROM sluice.endpoint_set(
  queue => $1::pg_catalog.text,
  name => $2::pg_catalog.text,
  url => $3::pg_catalog.text,
  owner => $4::pg_catalog.text,
  types => CASE WHEN $5::pg_catalog.text IS NOT NULL
    THEN ARRAY(SELECT pg_catalog.jsonb_array_elements_text($5::pg_catalog.text::pg_catalog.jsonb)) END,
  headers => $6::pg_catalog.text::pg_catalog.jsonb,
  ordered => $7::pg_catalog.text::boolean,
  secret => $8::pg_catalog.text,
  concurrency => $9::pg_catalog.text::integer
) e`,
)

const ENABLE = statement(
  'endpoint_enable',
  'SELECT sluice.endpoint_enable($1::pg_catalog.text, $2::pg_catalog.text) AS done',
)

const DISABLE = statement(
  'endpoint_disable',
  'SELECT sluice.endpoint_disable($1::pg_catalog.text, $2::pg_catalog.text, $3::pg_catalog.text) AS done',
)

const ROTATE = statement(
  'endpoint_rotate',
  `
SELECT sluice.endpoint_rotate(
  $1::pg_catalog.text, $2::pg_catalog.text,
  keep => $3::pg_catalog.text::double precision * interval '1 millisecond', secret => $4::pg_catalog.text
) AS secret`,
)

const DELETE = statement(
  'endpoint_delete',
  'SELECT sluice.endpoint_delete($1::pg_catalog.text, $2::pg_catalog.text) AS done',
)
