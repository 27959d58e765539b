const { now } = Date

/** Steps the clock of this process as far as `Date` tells it, from the time that it tells now. */
export function stepDate(ms: number): void {
  const told = Date.now
  const by = ms + told() - now()
  globalThis.Date = class extends Date {
    constructor(...given: [] | [number | string | Date]) {
      super(...((given.length === 0 ? [now() + by] : given) as [number]))
    }

    static override now(): number {
      return now() + by
    }
  } as DateConstructor
}
