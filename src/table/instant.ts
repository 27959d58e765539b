/**
 * An SQL expression for an instant that is not null, moved into the years 1 to 9999. The constraints of the tables keep
 * others out. But a row from before them, or from an owner who has dropped one, is to stop nothing but itself: the
 * microseconds of infinity, and of the last years of timestamptz, overflow a bigint and fail the statement for all rows.
 */
export function bounded(instant: string): string {
  return `least(greatest(${instant}, timestamptz '0001-01-01 00:00:00+00'), timestamptz '9999-12-31 23:59:59+00')`
}
