/**
 * A text as a terminal may get it: control characters, which could move its cursor or recolour it, and characters that turn
 * the direction of writing are written as in JSON (`\u001b`). Line ends and tabs stay.
 */
export function printable(text: string): string {
  return text.replaceAll(/(?![\n\t])\p{Cc}|[\u202A-\u202E\u2066-\u2069]/gu, escaped)
}

/** The same in one line, and cut at a length that no column of a table needs. */
export function oneLine(text: string, most = 200): string {
  const line = printable(text.slice(0, most + 1).replaceAll(/\s+/g, ' ')).trim()
  return text.length > most ? `${line.slice(0, most)}…` : line
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
