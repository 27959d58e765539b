/** A path into a value as one would write it in code: `items[0].price`, `["odd key"]`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.map(segmentText).join('').replace(/^\./, '')
}

function segmentText(segment: PropertyKey): string {
  if (typeof segment === 'number') return `[${segment}]`
  const key = String(segment)
  return /^[\p{L}_$][\p{L}\p{N}_$]*$/u.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
}
