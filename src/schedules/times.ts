/** When a schedule is due: a cron expression in a time zone, or an interval. */
export type Timing =
  | { readonly cron: string; readonly everyMs: null; readonly zone: string }
  | { readonly cron: null; readonly everyMs: number; readonly zone: string }

/** The occurrences of a schedule, in milliseconds since 1970. */
export interface Times {
  /** The first one after an instant; null if there is none. */
  after(ms: number): number | null
  /** Those after an instant and until another one, ascending; of more than `most` the latest. */
  between(afterMs: number, untilMs: number, most: number): readonly number[]
}
