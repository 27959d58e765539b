import type pg from 'pg'

/**
 * The parsers of our own statements. An application may have replaced any of the driver's, for all connections
 * (`pg.types.setTypeParser`) or for those of its configuration (`types`): what it makes of a boolean must not decide
 * what is claimed. A type without a parser stays the text that the server sends: big integers, for example.
 */
export const OWN_PARSERS = {
  // The driver's type has an overload for each type that it knows.
  getTypeParser: (oid: number): ((value: string) => unknown) => PARSERS.get(oid) ?? asText,
} as pg.CustomTypesConfig

/**
 * Sends a statement of ours and gets its answer as text, even if the configuration says `binary`. The driver reads that
 * flag when it is given a statement, and a statement cannot override it.
 *
 * @param connection the driver's client, if the given one is a wrapper of it.
 */
export function queryAsText(
  client: Pick<pg.ClientBase, 'query'>,
  query: { readonly text: string; readonly name?: string; readonly values?: unknown[] },
  connection: object = client,
): Promise<pg.QueryResult<Record<string, unknown>>> {
  const binary: unknown = Reflect.get(connection, 'binary')
  if (binary) Reflect.set(connection, 'binary', false)
  try {
    return client.query<Record<string, unknown>>({ ...query, types: OWN_PARSERS })
  } finally {
    if (binary) Reflect.set(connection, 'binary', binary)
  }
}

function asText(value: string): string {
  return value
}

/** Of `{a,"b c"}`. Arrays of ours contain neither NULL nor other arrays. */
function textArray(value: string): readonly string[] {
  const elements = value.slice(1, -1).matchAll(/"((?:[^"\\]|\\.)*)"|[^,]+/gs)
  return [...elements].map(([whole, quoted]) => (quoted === undefined ? whole : quoted.replace(/\\(.)/gs, '$1')))
}

/** By the server's numbers for boolean, smallint, integer, double precision and text[]. */
const PARSERS: ReadonlyMap<number, (value: string) => unknown> = new Map<number, (value: string) => unknown>([
  [16, (value) => value === 't'],
  [21, Number],
  [23, Number],
  [701, Number],
  [1009, textArray],
])
