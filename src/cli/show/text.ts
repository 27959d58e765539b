import { agoWords, durationWords } from '../../basics/time/duration-words.ts'
import { shortened } from '../../basics/words/sentences.ts'
import { streamOf } from '../../streams.ts'

/** When something is due: 'in 3m 12s', '45s ago', 'never'. */
export function formatDue(inMs: number | null): string {
  if (inMs === null) return 'never'
  return inMs > 0 ? `in ${durationWords(inMs)}` : agoWords(-inMs)
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
  return printable(shortened(text, most))
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
