/** Where a page of a list by instants begins: after the row of this instant, in microseconds since 1970, and id. */
export interface TimeCursor {
  readonly us: string
  readonly id: string
}

/** The earlier of two cursors: one that was given, and the one before all rows of an instant. */
export function earlier(after: TimeCursor | null, beforeUs: number): TimeCursor {
  if (after !== null && Number(after.us) < beforeUs) return after
  return { us: String(beforeUs), id: '-9223372036854775808' }
}
