import { toJsonText } from './exact-json.ts'
import { maskSecrets } from './mask-secrets.ts'

/** Writes text and a line end to stdout, with the passwords of URLs masked, as everywhere. */
export function print(text: string): void {
  process.stdout.write(`${maskSecrets(text)}\n`)
}

/** Writes a value as JSON to stdout, indented, or in one line. */
export function printJson(value: unknown, layout: 'indented' | 'line' = 'indented'): void {
  print(toJsonText(value, layout === 'indented' ? 2 : 0))
}

/** Writes a remark to stderr, so that it does not get into what is piped. */
export function note(text: string): void {
  process.stderr.write(`${maskSecrets(text)}\n`)
}
