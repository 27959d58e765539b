import { styleText } from 'node:util'
import { maskSecrets } from './mask-secrets.ts'
import { printable } from './show/text.ts'

/** Writes text and a line end to stdout, with the passwords of URLs masked. */
export function print(text: string): void {
  process.stdout.write(`${maskSecrets(text)}\n`)
}

/** Of a command that prints JSON if it is asked to. */
export interface JsonOptions {
  readonly json?: true
}

/** Writes a value as JSON to stdout, indented, or in one line. */
export function printJson(value: unknown, layout: 'indented' | 'line' = 'indented'): void {
  print(toJsonText(value, layout === 'indented' ? 2 : 0))
}

/** Writes a remark to stderr, so that it does not get into a pipe. */
export function note(text: string): void {
  process.stderr.write(`${maskSecrets(text)}\n`)
}

type Style = Parameters<typeof styleText>[0]

/** Where text is shown: on a terminal with a width and colours, or in a pipe. */
export interface View {
  readonly paint: (style: Style, text: string) => string
  /** The columns of the terminal; undefined for no limit. */
  readonly width: number | undefined
}

/** The standard output, with colours if it is a terminal and NO_COLOR is not set. */
export function stdoutView(): View {
  return {
    paint: (style, text) => styleText(style, text, { stream: process.stdout }),
    // A terminal that does not know its width says 0.
    width: (process.stdout.isTTY && process.stdout.columns) || undefined,
  }
}

/** A message or a dead letter for JSON: payload and headers as values that keep all their digits. */
export function withContent<Content extends { readonly payloadJson: string; readonly headersJson: string }>({
  payloadJson,
  headersJson,
  ...rest
}: Content): unknown {
  return { ...rest, payload: parseExactly(payloadJson), headers: parseExactly(headersJson) }
}

/** Functions of Node that TypeScript's library lacks. */
interface SourceAwareJson {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source?: string }) => unknown): unknown
  rawJSON(text: string): unknown
}

const json = JSON as unknown as SourceAwareJson

/**
 * The value of a JSON text for {@link toJsonText}. Its numbers keep all the digits that they have in the database, as
 * in 1.10 or beyond 2^53. A string with too many levels for the stack, some thousands, stays a string.
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
