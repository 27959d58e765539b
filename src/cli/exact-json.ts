import { printable } from './printable.ts'

/** What Node has and TypeScript's library does not know yet. */
interface SourceAwareJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

const json = JSON as unknown as SourceAwareJson

/**
 * The value of a JSON text for {@link toJsonText}: its numbers keep the digits that they have in the database, also
 * beyond 2^53 and 1.10. What is nested deeper than the stack allows, some thousand levels, stays a text.
 */
export function parseExactly(text: string): unknown {
  try {
    return json.parse(text, (_, value, { source }) =>
      typeof value === 'number' && source !== undefined ? json.rawJSON(source) : value,
    )
  } catch (error) {
    if (error instanceof RangeError) return text
    throw error
  }
}

/** The JSON text of a value, safe for a terminal. */
export function toJsonText(value: unknown, indent: number): string {
  return printable(JSON.stringify(value, null, indent))
}
