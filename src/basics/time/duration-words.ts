/** The units of a duration, in milliseconds, the largest first. */
export const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** A duration by its two largest units: '3m 12s', '2d 4h', '45s', '250ms'. */
export function durationWords(ms: number): string {
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs)
  const [large, small] = at === -1 ? [] : UNITS.slice(at, at + 2)
  if (large === undefined) return `${Math.max(0, Math.floor(ms))}ms`
  const rest = small === undefined ? 0 : Math.floor((ms % large[1]) / small[1])
  const text = `${Math.floor(ms / large[1])}${large[0]}`
  return small === undefined || rest === 0 ? text : `${text} ${rest}${small[0]}`
}

/** '45s ago' */
export function agoWords(ms: number): string {
  return `${durationWords(ms)} ago`
}
