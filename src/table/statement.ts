/** One SQL statement with its name, under which it is prepared on our own connections. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** The names of its columns, if all of them are strings. Then the server need not be asked for a description. */
  readonly columns?: readonly string[]
}

/** A row as a driver returns it, before its columns are checked. */
export type Row = Readonly<Record<string, unknown>>

/**
 * Runs a statement on a database connection and returns its rows. Our own connections and every accepted transaction
 * (`pg`, Kysely, postgres.js, Knex, Drizzle, TypeORM, Prisma) have this one form, so every statement casts each
 * parameter, takes JSON as `$n::text::jsonb` and returns big integers as text.
 *
 * Statements run under the search path of the application. So each function and operator in them fits one of pg_catalog
 * without a conversion, or is named in full; otherwise one of another schema that fits better would be called. On the
 * application's sessions types are named in full too, because a temporary table is a type and is found first. Types
 * that are words of SQL, such as `bigint`, need no schema.
 */
export type Execute = (statement: Statement, params: readonly unknown[]) => Promise<readonly Row[]>

/** A statement named `sluice_<name>`. */
export function statement(name: string, text: string, columns?: readonly string[]): Statement {
  const named = { name: `sluice_${name}`, text: text.trim() }
  return columns === undefined ? named : { ...named, columns }
}

/** The row of a statement that always returns one. Throws if there is none, because then our own SQL is wrong. */
export function only([row]: readonly Row[]): Row {
  if (row === undefined) throw new TypeError('expected one row')
  return row
}

/** The column as a number. Throws on anything else, because then our own SQL is wrong. */
export function numberOf(row: Row, column: string): number {
  return toNumber(row[column], column)
}

/** The column as a number, or null. */
export function numberOrNull(row: Row, column: string): number | null {
  return toNumberOrNull(row[column], column)
}

/** The column as text. Numbers and big integers become text, because some drivers parse int8. */
export function textOf(row: Row, column: string): string {
  return toText(row[column], column)
}

/** The column as text, or null. */
export function textOrNull(row: Row, column: string): string | null {
  return toTextOrNull(row[column], column)
}

/** The column as a boolean. Throws on anything else, which would otherwise count as false. */
export function booleanOf(row: Row, column: string): boolean {
  const value = row[column]
  if (typeof value === 'boolean') return value
  throw new TypeError(`${column}: not a boolean`)
}

/** The column as an array of strings. */
export function textsOf(row: Row, column: string): readonly string[] {
  const value: unknown = row[column]
  if (!Array.isArray(value)) throw new TypeError(`${column}: not an array`)
  return value.map((one: unknown) => toText(one, column))
}

// The same for a value of a column. The rows of a claim are read with these: `toText(row.id, 'id')` takes less than half the
// time of `textOf(row, 'id')`, because V8 knows where `row.id` is, and looks a name in a variable up.

/** @param column for the error */
export function toNumber(value: unknown, column: string): number {
  const number = typeof value === 'number' ? value : Number(value)
  if (value === null || !Number.isFinite(number)) throw new TypeError(`${column}: not a number`)
  return number
}

export function toNumberOrNull(value: unknown, column: string): number | null {
  return value === null ? null : toNumber(value, column)
}

export function toText(value: unknown, column: string): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  throw new TypeError(`${column}: not a string`)
}

export function toTextOrNull(value: unknown, column: string): string | null {
  return value === null || value === undefined ? null : toText(value, column)
}
