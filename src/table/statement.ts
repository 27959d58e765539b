/** One SQL statement with a name: the name is its key as a prepared statement on our own connections. */
export interface Statement {
  readonly name: string
  readonly text: string
  /** The names of its columns, where all of them are texts: a driver that is told need not ask the server. */
  readonly columns?: readonly string[]
}

/** A row as it leaves a driver: nothing is known of it yet. */
export type Row = Readonly<Record<string, unknown>>

/**
 * The one seam to a database connection: run a statement, get its rows. Every accepted transaction (`pg`, Kysely,
 * postgres.js, Knex, Drizzle, TypeORM, Prisma) and our own connections are this one function, so every statement
 * casts each parameter, takes JSON as `$n::text::jsonb` and gives big integers as text.
 * They run under the search path of the application, so whatever is called fits a function or operator of pg_catalog
 * without a conversion, or is named in full: otherwise one that fits better in another schema would be called. On a
 * session of the application's, types are named in full too: a temporary table is a type, and is found first. Those
 * that are words of SQL, such as `bigint`, need no schema.
 */
export type Execute = (statement: Statement, params: readonly unknown[]) => Promise<readonly Row[]>

/** A statement named `sluice_<name>`. */
export function statement(name: string, text: string, columns?: readonly string[]): Statement {
  const named = { name: `sluice_${name}`, text: text.trim() }
  return columns === undefined ? named : { ...named, columns }
}

/** The column as a number; throws on anything else, because then our own SQL is wrong. */
export function numberOf(row: Row, column: string): number {
  const number = Number(row[column])
  if (row[column] === null || !Number.isFinite(number)) throw new TypeError(`${column}: not a number`)
  return number
}

/** The column as text; numbers and big integers (some drivers parse int8) are printed. */
export function textOf(row: Row, column: string): string {
  const value = row[column]
  if (typeof value === 'string') return value
  if (typeof value === 'number' || typeof value === 'bigint') return String(value)
  throw new TypeError(`${column}: not a text`)
}

/** The column as a boolean; throws on anything else: what is not true would pass for false. */
export function booleanOf(row: Row, column: string): boolean {
  const value = row[column]
  if (typeof value === 'boolean') return value
  throw new TypeError(`${column}: not a boolean`)
}

/** The column as text, or null. */
export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null || row[column] === undefined ? null : textOf(row, column)
}

/** The column as an array of texts. */
export function textsOf(row: Row, column: string): readonly string[] {
  const value = row[column]
  if (!Array.isArray(value)) throw new TypeError(`${column}: not an array`)
  return value.map((_, at) => textOf({ at: value[at] }, 'at'))
}
