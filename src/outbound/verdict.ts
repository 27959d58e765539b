import type { Answer } from './poster.ts'
import { retryAfterMs } from './retry-after.ts'

/** What an attempt has come to. */
export interface AttemptVerdict {
  /** Null: there was no answer. */
  readonly status: number | null
  /** Why it has failed; null: it is delivered. */
  readonly error: string | null
  /** For how long the endpoint wants nothing; null: it has not said so. */
  readonly closedMs: number | null
  /** Whether the endpoint wants nothing more. */
  readonly gone: boolean
}

/** What an answer means: its status decides. */
export function verdictOf({ status, retryAfter, text }: Answer, nowMs: number): AttemptVerdict {
  const delivered = status >= 200 && status < 300
  return {
    status,
    error: delivered ? null : failureText(status, text),
    closedMs: BUSY.includes(status) ? (retryAfterMs(retryAfter, nowMs) ?? null) : null,
    gone: status === 410,
  }
}

/** Statuses that say something of the endpoint, and not of the message. */
const BUSY: readonly number[] = [429, 502, 503, 504]

/** A NUL cannot be stored as text. */
function failureText(status: number, text: string): string {
  const shown = text.replaceAll('\0', '\uFFFD').trim()
  return shown === '' ? `status ${status}` : `status ${status}: ${shown}`
}
