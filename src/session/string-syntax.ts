import type pg from 'pg'

/**
 * Whether a backslash in a plain string of a text escapes what follows it, as with `standard_conforming_strings = off`:
 * then a text holds other statements than it seems to. Both are possible while a statement is unanswered that may change it.
 */
export function possibleEscapesInStrings(client: object): readonly boolean[] {
  const syntax = OF_CLIENT.get(client)
  if (syntax === undefined) return [false]
  return syntax.unanswered.size > 0 ? [false, true] : [syntax.escapes]
}

/** A text is about to be sent. Returns what to call when it has been answered. */
export function noteStringSyntax(client: object, text: string): () => void {
  const syntax = OF_CLIENT.get(client)
  if (syntax === undefined || !MAY_CHANGE.test(text)) return () => undefined
  const sent = {}
  syntax.unanswered.add(sent)
  return () => void syntax.unanswered.delete(sent)
}

/**
 * Follows the setting on a connection. The server reports each change of it before it is ready for the next statement.
 */
export function followStringSyntax(client: pg.Client, conforming: boolean): void {
  const first = !conforming
  const syntax = { first, escapes: first, unanswered: new Set<object>() }
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

/** By its name, or back to an earlier value. */
const MAY_CHANGE = /standard_conforming_strings|\breset\b|\brollback\b/i

const OF_CLIENT = new WeakMap<object, Syntax>()

interface Syntax {
  readonly first: boolean
  escapes: boolean
  /** Statements that may change it. */
  readonly unanswered: Set<object>
}
