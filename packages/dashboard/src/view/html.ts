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
 * A string in which nothing hides: characters that turn the direction of writing, that are shown as nothing, and control
 * characters are written as in JSON (`\u202e`). Line ends and tabs stay. So a character that is joined of several, as some
 * emoji are, falls apart.
 */
export function visible(text: string): string {
  return text.replaceAll(HIDDEN, (character) =>
    Array.from({ length: character.length }, (_, at) => `\\u${hex(character.charCodeAt(at))}`).join(''),
  )
}

function hex(unit: number): string {
  return unit.toString(16).padStart(4, '0')
}

const HIDDEN = /(?![\n\t])\p{Cc}|[\p{Default_Ignorable_Code_Point}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu
