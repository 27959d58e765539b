/** Ids in ascending order. They nearly always are nearly so, and then each is compared once. */
export function inOrder(ids: readonly string[]): readonly string[] {
  return [...ids].sort(compareIds)
}

/** As texts, where they have as many digits and no sign: numbers of more than 53 bits are BigInts, which cost more to make. */
function compareIds(a: string, b: string): number {
  if (a.length === b.length && a[0] !== '-' && b[0] !== '-') return a < b ? -1 : a > b ? 1 : 0
  return BigInt(a) < BigInt(b) ? -1 : 1
}
