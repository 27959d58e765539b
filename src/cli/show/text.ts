import { streamOf } from '../../streams.ts'

/** The units of a duration, in milliseconds, the largest first. */
export const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** A duration by its two largest units: '3m 12s', '2d 4h', '45s', '250ms'. */
export function formatAge(ms: number): string {
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs)
  const [large, small] = at === -1 ? [] : UNITS.slice(at, at + 2)
  if (large === undefined) return `${Math.max(0, Math.floor(ms))}ms`
  const rest = small === undefined ? 0 : Math.floor((ms % large[1]) / small[1])
  const text = `${Math.floor(ms / large[1])}${large[0]}`
  return small === undefined || rest === 0 ? text : `${text} ${rest}${small[0]}`
}

/** When something is due: 'in 3m 12s', '45s ago', 'never'. */
export function formatDue(inMs: number | null): string {
  if (inMs === null) return 'never'
  return inMs > 0 ? `in ${formatAge(inMs)}` : formatAgo(-inMs)
}

/** '45s ago' */
export function formatAgo(ms: number): string {
  return `${formatAge(ms)} ago`
}

/** '1 message', '12 messages' */
export function counted(count: number, what: string): string {
  return `${count} ${what}${count === 1 ? '' : 's'}`
}

/** 'orders/7', as handlers and the log name an event; null of what is none. */
export function eventName({
  queue,
  position,
}: {
  readonly queue: string
  readonly position: number | null
}): string | null {
  return position === null ? null : `${streamOf(queue)}/${position}`
}

/**
 * A string that is safe for a terminal. Control characters, which could move its cursor or change its colours, and
 * characters that change the direction of writing are written as in JSON (`\u001b`). Line ends and tabs stay.
 */
export function printable(text: string): string {
  return text.replaceAll(/(?![\n\t])\p{Cc}|[\u202A-\u202E\u2066-\u2069]/gu, escaped)
}

/** The same in one line, shortened to a length that no column of a table needs. */
export function oneLine(text: string, most = 200): string {
  const line = printable(text.slice(0, most + 1).replaceAll(/\s+/g, ' ')).trim()
  return text.length > most ? `${line.slice(0, most)}…` : line
}

/** Lines of at most `width` characters, broken between words. */
export function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last === undefined || last.length + 1 + word.length > width) lines.push(word)
    else lines[lines.length - 1] = `${last} ${word}`
  }
  return lines
}

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
}
