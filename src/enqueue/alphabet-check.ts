import { type ErrorCode, SluiceError } from '../errors.ts'
import { OPTIONS, type RowOptions } from '../message-options.ts'
import { type Alphabet, isAscii } from '../session/alphabet.ts'
import type { InsertRow } from '../table/enqueue/insert-row.ts'
import type { Execute } from '../table/statement.ts'
import type { MessageNames } from './read-payload.ts'

/** The texts of a message or of an event. */
type TextRow = Pick<InsertRow, 'payload' | 'headers'> & Partial<InsertRow>

/**
 * Refuses rows with a character that the database's encoding lacks. If the server refused them, it would abort the
 * caller's transaction.
 *
 * @param namesOf what the message at an index is called in errors
 * @throws SluiceError PAYLOAD_INVALID, OPTION_INVALID
 */
export async function checkAlphabet(
  alphabet: Alphabet,
  execute: Execute,
  rows: readonly TextRow[],
  namesOf: (at: number) => MessageNames,
): Promise<void> {
  if (!rows.some((row) => mayHoldForeign(alphabet, row))) return
  await alphabet.learnUnknown(execute, rows.flatMap(textsOf))
  for (const [at, row] of rows.entries()) {
    const { payload, options } = namesOf(at)
    refuse(alphabet, row.payload, payload, 'PAYLOAD_INVALID')
    refuse(alphabet, row.headers, `${options}.headers`, 'OPTION_INVALID')
    for (const name of TEXTS) refuse(alphabet, textOf(row, name), `${options}.${name}`, 'OPTION_INVALID')
    refuse(alphabet, row.dedupe?.key ?? null, `${options}.dedupe.key`, 'OPTION_INVALID')
  }
}

/** The same for one string. @throws SluiceError OPTION_INVALID */
export async function checkText(
  alphabet: Alphabet,
  execute: Execute,
  text: string | null,
  what: string,
): Promise<void> {
  if (text === null || alphabet.holdsAll || isAscii(text)) return
  await alphabet.learnUnknown(execute, [text])
  refuse(alphabet, text, what, 'OPTION_INVALID')
}

/** Whether a row may hold a character that the database's encoding lacks. To ask first saves one message a promise. */
export function mayHoldForeign(alphabet: Alphabet, row: TextRow): boolean {
  return !alphabet.holdsAll && !isAsciiRow(row)
}

/** Without a list of the texts: to make one of each row takes a twelfth of Node’s processor time for an append of many. */
function isAsciiRow(row: TextRow): boolean {
  const { payload, headers, dedupe } = row
  if (!isAscii(payload) || !isAscii(headers) || !isAscii(dedupe?.key ?? '')) return false
  return TEXTS.every((name) => isAscii(textOf(row, name) ?? ''))
}

/** Of events, some are not there. */
function textsOf(row: TextRow): readonly string[] {
  return [row.payload, row.headers, ...TEXTS.map((name) => textOf(row, name) ?? ''), row.dedupe?.key ?? '']
}

function textOf(row: Partial<RowOptions>, name: keyof RowOptions): string | null {
  const text = row[name]
  return typeof text === 'string' ? text : null
}

/** Options that are text as it was given. */
const TEXTS = OPTIONS.filter(({ option }) => ['type', 'text', 'policy'].includes(option.kind)).map(
  ({ rowName }) => rowName,
)

function refuse(alphabet: Alphabet, text: string | null, what: string, code: ErrorCode): void {
  const foreign = text === null ? undefined : alphabet.foreignIn(text)
  if (foreign === undefined) return
  // Only the character is quoted: payloads must not get into logs.
  const number = foreign.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
  throw new SluiceError(
    code,
    `${what}: expected characters of the database's encoding, ${alphabet.encoding}, received U+${number}. ` +
      'Leave it out, or use a database in UTF-8',
  )
}
