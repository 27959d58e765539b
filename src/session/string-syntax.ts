import type pg from 'pg'

/**
 * Whether a backslash in a plain string of a text escapes what follows it, as with `standard_conforming_strings = off`:
 * then a text holds other statements than it seems to.
 */
export function escapesInStrings(client: object): boolean {
  return OF_CLIENT.get(client)?.escapes ?? false
}

/**
 * Follows the setting on a connection. The server reports each change of it before it is ready for the next statement.
 */
export function followStringSyntax(client: pg.Client, conforming: boolean): void {
  const first = !conforming
  const syntax = { first, escapes: first }
  OF_CLIENT.set(client, syntax)
  client.connection.on('parameterStatus', ({ parameterName, parameterValue }: ParameterStatus) => {
    if (parameterName === SETTING) syntax.escapes = parameterValue === 'off'
  })
}

/** What a handler has changed is taken back before the next statement, by a text whose answer may not be here yet. */
export function resetStringSyntax(client: object): void {
  const syntax = OF_CLIENT.get(client)
  if (syntax !== undefined) syntax.escapes = syntax.first
}

interface ParameterStatus {
  readonly parameterName: string
  readonly parameterValue: string
}

const SETTING = 'standard_conforming_strings'

const OF_CLIENT = new WeakMap<object, { readonly first: boolean; escapes: boolean }>()
