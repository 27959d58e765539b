import type { Column } from '../../shape.ts'
import { textOrNull } from '../../statement.ts'

/** A failed attempt of a message, as the message keeps it. */
export interface Failure {
  /** Which attempt it was, from 1. */
  readonly attempt: number
  /** When it failed, by the database's clock. */
  readonly at: Date
  /** What it said. */
  readonly error: string
  /** The name of the worker; null: a claim's client, or the database. */
  readonly worker: string | null
  /** Where it was thrown, a line per frame; null: it was no thrown error, or others have failed since. */
  readonly stack: string | null
}

/** The column `failures`: see sluice_private.add_failure. */
export const FAILURES: Column<readonly Failure[]> = {
  select: (of, name) => `${of}.failures::text AS ${name}`,
  read: (row, name) => {
    const failures: unknown = JSON.parse(textOrNull(row, name) ?? '[]')
    if (!Array.isArray(failures)) throw new TypeError('expected failures to be an array')
    return failures.map(toFailure)
  },
}

function toFailure(failure: Readonly<Record<string, unknown>>): Failure {
  const { attempt, at, error, worker, stack } = failure
  return {
    attempt: Number(attempt),
    at: new Date(String(at)),
    error: String(error),
    worker: typeof worker === 'string' ? worker : null,
    stack: typeof stack === 'string' ? stack : null,
  }
}
