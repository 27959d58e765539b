import { separated } from '../basics/words/words.ts'
import { dateOf, dateOrNull, durationOrNull, microseconds } from './dates.ts'
import { booleanOf, numberOf, numberOrNull, type Row, textOf, textOrNull, textsOf } from './statement.ts'

/** How one property is selected, and read. Its name in SQL is that of the property: `lastError` is `last_error`. */
export interface Column<T> {
  /** What is selected of the row `of`; null: nothing, because another property selects it. */
  readonly select: (of: string, name: string) => string | null
  readonly read: (row: Row, name: string) => T
}

/** Objects of one type, and the columns that they are read from. */
export interface Shape<T> {
  /** The list of columns of the row `of`, for SELECT. */
  readonly columns: (of: string) => string
  readonly read: (row: Row) => T
}

/** The columns of each property. */
export type Columns<T> = { readonly [Name in keyof T]-?: Column<T[Name]> }

/** Says name, column and type of each property once. What it means is in the comments of the interface `T`. */
export function shape<T extends object>(columns: Columns<T>): Shape<T> {
  const all = Object.entries<Column<unknown>>(columns).map(
    ([property, of]) => [property, separated(property, '_'), of] as const,
  )
  return {
    columns: (of) => all.flatMap(([, name, { select }]) => select(of, name) ?? []).join(',\n       '),
    read: (row) => Object.fromEntries(all.map(([property, name, { read }]) => [property, read(row, name)])) as T,
  }
}

/** A column of the row, if its name is another than that of the property; or an expression. */
type ColumnSource = string | ((of: string) => string)

const plain = (expression: string) => expression
const asText = (expression: string) => `${expression}::text`

function column<T>(
  read: (row: Row, name: string) => T,
  form: (expression: string) => string = plain,
  sourceOf: (name: string) => string = plain,
): (source?: ColumnSource) => Column<T> {
  return (source) => ({
    select: (of, name) => {
      const expression = typeof source === 'function' ? source(of) : `${of}.${source ?? sourceOf(name)}`
      return `${form(expression)} AS ${name}`
    },
    read,
  })
}

const milliseconds = (interval: string) => `(extract(epoch FROM ${interval}) * 1000.0)`
/** `leaseMs`: the interval `lease`. */
const intervalOf = (name: string) => name.replace(/_ms$/, '')

export const text = column(textOf)
export const texts = column(textsOf)
export const bool = column(booleanOf)
/** Of any type of number: clients return some of them as text. */
export const number = column(numberOf)
/** A bigint that has to keep its digits. */
export const bigint = column(textOf, asText)
export const date = column(dateOf, microseconds)
/** An interval in whole milliseconds. */
export const duration = column((row, name) => Math.round(numberOf(row, name)), milliseconds, intervalOf)

/** The same where the column may be null. */
export const nullable = {
  text: column(textOrNull),
  word: <Word extends string>(): Column<Word | null> => ({
    ...column(textOrNull)(),
    read: (row, name) => textOrNull(row, name) as Word | null,
  }),
  bool: column((row, name) => (row[name] === null ? null : booleanOf(row, name))),
  number: column(numberOrNull),
  bigint: column(textOrNull, asText),
  date: column(dateOrNull, microseconds),
  /** Null also where it is infinite. */
  duration: column(durationOrNull, milliseconds, intervalOf),
}

/** `dueInMs`: in how long `due_at` is. Epochs are subtracted, because PostgreSQL below 17 subtracts no infinite instants. */
export const msUntil = column(
  durationOrNull,
  (instant) => `((extract(epoch FROM ${instant}) - extract(epoch FROM clock_timestamp())) * 1000.0)`,
  (name) => name.replace(/_in_ms$/, '_at'),
)

/** `enqueuedAgoMs`: how long ago `enqueued_at` was. */
export const msSince = column(
  durationOrNull,
  (instant) => `((extract(epoch FROM clock_timestamp()) - extract(epoch FROM ${instant})) * 1000.0)`,
  (name) => name.replace(/_ago_ms$/, '_at'),
)

/** Text that is one of a few words. */
export function word<Word extends string>(): Column<Word> {
  return { ...text(), read: (row, name) => textOf(row, name) as Word }
}

/** JSON as the server writes it. */
export const jsonText = column(textOf, asText)

/** The same, parsed. @param name what {@link jsonText} is selected as */
export function parsed<T>(name: string): Column<T> {
  return { select: () => null, read: (row) => JSON.parse(textOf(row, name)) as T }
}

/** The same in every row. */
export function constant<const Value>(value: Value): Column<Value> {
  return { select: () => null, read: () => value }
}
