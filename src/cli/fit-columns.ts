/** How wide a column would be, and how narrow it may be. */
export interface Extent {
  readonly natural: number
  readonly least: number
}

/**
 * The widths of as many columns, from the left, as find room in a line of `width`. They shrink from the widest on; where not
 * even their least widths fit, there is room for one more column of width 1 behind those that do.
 */
export function fitColumns(extents: readonly Extent[], width: number, gap: number): readonly number[] {
  const fitting = columnsThatFit(extents, width, gap)
  const room = fitting < extents.length ? width - gap - 1 : width
  const shown = extents.slice(0, fitting)
  const widths = shown.map(({ natural }) => natural)
  for (let excess = lineOf(widths, gap) - room; excess > 0; excess--) {
    const [widest] = [...widths.keys()]
      .filter((at) => widths[at]! > shown[at]!.least)
      .toSorted((a, b) => widths[b]! - widths[a]!)
    if (widest === undefined) break
    widths[widest]! -= 1
  }
  return widths
}

/** At least one. */
function columnsThatFit(extents: readonly Extent[], width: number, gap: number): number {
  const least = extents.map((extent) => extent.least)
  if (lineOf(least, gap) <= width) return least.length
  const narrower = least.map((_, at) => at + 1).filter((count) => lineOf([...least.slice(0, count), 1], gap) <= width)
  return Math.max(1, ...narrower.filter((count) => count < least.length))
}

function lineOf(widths: readonly number[], gap: number): number {
  return widths.reduce((sum, one) => sum + one, gap * (widths.length - 1))
}
