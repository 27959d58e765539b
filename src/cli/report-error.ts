import { CommanderError } from 'commander'
import { DatabaseError } from 'pg'
import { INSUFFICIENT_PRIVILEGE } from '../basics/errors/sql-state.ts'
import { wordsOf } from '../basics/errors/words-of.ts'
import { type ErrorCode, isSluiceError } from '../errors.ts'
import { type DatabaseUrlSource, secretsOf } from './database-url.ts'
import { maskSecrets } from './mask-secrets.ts'
import { printable } from './show/text.ts'

const FAILED = 1
const USED_WRONGLY = 2

const USAGE_CODES: readonly ErrorCode[] = ['OPTION_INVALID', 'QUEUE_NAME_INVALID', 'STREAM_NAME_INVALID']

/** Prints an error to stderr, without secrets, unless commander has done so, and returns the exit code. */
export function reportError(error: unknown, options: DatabaseUrlSource): number {
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : USED_WRONGLY
  const text = ['error: ', wordsOf(error), ...remarks(error).map((remark) => `\n${remark}`)].join('')
  process.stderr.write(`${printable(maskSecrets(text, secretsOf(options)))}\n`)
  return isSluiceError(error) && USAGE_CODES.includes(error.code) ? USED_WRONGLY : FAILED
}

/** What the server adds to its message, and a remedy if we know one. */
function remarks(error: unknown): readonly string[] {
  if (!(error instanceof DatabaseError)) return []
  const remedy = error.code === INSUFFICIENT_PRIVILEGE ? REMEDY : undefined
  const detail = QUOTES_THE_ROW.includes(error.code ?? '') ? undefined : error.detail
  return [detail, error.hint, remedy].filter((remark) => remark !== undefined)
}

/** not_null_violation and check_violation: their detail quotes the row, with the payload. */
const QUOTES_THE_ROW = ['23502', '23514']
const REMEDY = 'Connect as the owner of schema "sluice", or as a role with the privileges needed there.'

/** The command refuses, or found nothing: exit code 1 with this message. */
export class CommandRefusal extends Error {
  override readonly name = 'Refusal'
}
