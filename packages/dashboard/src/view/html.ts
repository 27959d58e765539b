import { html as escaping, type raw } from 'hono/html'

/** Text of a page in which everything from outside is escaped. */
export type Html = ReturnType<typeof raw>

/**
 * The only way in which this package makes HTML. Each value is escaped, unless it is HTML of this function itself; null, undefined
 * and booleans are left out, and lists are joined. Strings become visible first: see {@link visible}.
 */
export function html(strings: TemplateStringsArray, ...values: readonly unknown[]): Html {
  // Of values that are no promises, Hono's function makes HTML at once.
  const made = escaping(strings, ...values.map(prepared)) as Html
  MADE.add(made)
  return made
}

/** Hono tells its HTML by a property, which any object can have. */
const MADE = new WeakSet<object>()

/** No HTML at all. */
export const NOTHING = html``

function prepared(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(prepared)
  if (value === null || value === undefined || typeof value === 'boolean') return null
  return typeof value === 'object' && MADE.has(value) ? value : visible(String(value))
}

/**
 * A string in which nothing hides: characters that turn the direction of writing, that have no width, and control
 * characters are written as in JSON (`\u202e`). Line ends and tabs stay.
 */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`)
}

const HIDDEN =
  /(?![\n\t])\p{Cc}|[\u061C\u200B\u200E\u200F\u2028-\u202E\u2060-\u2064\u2066-\u206F\uFEFF\uFFF9-\uFFFB]|\p{Cs}/gu
