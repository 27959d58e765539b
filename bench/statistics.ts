/** A number over the rounds. */
export interface Summary {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** @throws RangeError if there are no values. */
export function summarise(values: readonly number[]): Summary {
  return { median: percentile(values, 50), min: Math.min(...values), max: Math.max(...values) }
}

/** The value below which `percent` of the values are, between neighbours in proportion. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  const at = ((sorted.length - 1) * percent) / 100
  const below = sorted[Math.floor(at)]
  const above = sorted[Math.ceil(at)]
  if (below === undefined || above === undefined) throw new RangeError('Expected at least one value')
  return below + (above - below) * (at - Math.floor(at))
}
