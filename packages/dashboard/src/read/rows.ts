/** A part of a long list, and where it is in it. */
export interface Rows<Row> {
  readonly rows: readonly Row[]
  /** The number of the page, from 1. */
  readonly page: number
  readonly pages: number
  /** How many there are on all pages. */
  readonly total: number
}

/** So many rows of a list that is read as a whole are shown at once. */
const MOST_ROWS = 100

/** The page of a list that an address asks for; the last one, if it asks for a later one. */
export function rowsOf<Row>(all: readonly Row[], asked: string | null): Rows<Row> {
  const pages = Math.max(1, Math.ceil(all.length / MOST_ROWS))
  const number = /^\d{1,6}$/.test(asked ?? '') ? Number(asked) : 1
  const page = Math.min(Math.max(1, number), pages)
  return { rows: all.slice((page - 1) * MOST_ROWS, page * MOST_ROWS), page, pages, total: all.length }
}
