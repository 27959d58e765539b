import { bounded } from './instant.ts'
import { type Execute, numberOf, only, type Row, statement, textOf } from './statement.ts'

/** An SQL expression for an instant in microseconds since 1970; null where it is null. */
export function microseconds(instant: string): string {
  return `CASE WHEN ${instant} IS NOT NULL THEN (extract(epoch FROM ${bounded(instant)}) * 1000000.0)::bigint END`
}

/** A column of {@link microseconds} as a Date, in whole milliseconds. */
export function dateOf(row: Row, column: string): Date {
  return new Date(Math.floor(Number(textOf(row, column)) / 1_000))
}

/** The same; null where the column is null. */
export function dateOrNull(row: Row, column: string): Date | null {
  return row[column] === null ? null : dateOf(row, column)
}

/** A column of milliseconds as an integer; null also if it is infinite, as an instant of SQL can be. */
export function durationOrNull(row: Row, column: string): number | null {
  const ms = Number(row[column] ?? Number.NaN)
  return Number.isFinite(ms) ? Math.round(ms) : null
}

/** The database's clock, in microseconds since 1970. */
export async function readClockUs(execute: Execute): Promise<number> {
  const row = only(await execute(CLOCK, []))
  return numberOf(row, 'now_us')
}

const CLOCK = statement('clock', 'SELECT (extract(epoch FROM clock_timestamp()) * 1000000.0)::bigint AS now_us')
