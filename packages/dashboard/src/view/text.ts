const UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** A duration by its two largest units, as on the command line: '3m 12s', '2d 4h', '45s', '250ms'. */
export function durationWords(ms: number): string {
  const at = UNITS.findIndex(([, unitMs]) => ms >= unitMs)
  const [large, small] = at === -1 ? [] : UNITS.slice(at, at + 2)
  if (large === undefined) return `${Math.max(0, Math.floor(ms))}ms`
  const rest = small === undefined ? 0 : Math.floor((ms % large[1]) / small[1])
  const text = `${Math.floor(ms / large[1])}${large[0]}`
  return small === undefined || rest === 0 ? text : `${text} ${rest}${small[0]}`
}

/** 'in 3m 12s', '45s ago' */
export function due(inMs: number): string {
  return inMs > 0 ? `in ${durationWords(inMs)}` : `${durationWords(-inMs)} ago`
}

/** '1,234' */
export function number(value: number): string {
  return value.toLocaleString('en-US')
}

/** '1 message', '1,200 messages' */
export function counted(count: number, what: string): string {
  return `${number(count)} ${what}${count === 1 ? '' : 's'}`
}

/** '12 MB', in powers of 1,000. */
export function bytes(value: number): string {
  const at = Math.min(BYTES.length - 1, Math.floor(Math.log10(Math.max(1, value)) / 3))
  const size = value / 1_000 ** at
  return `${size < 10 && at > 0 ? size.toFixed(1) : Math.round(size)} ${BYTES[at]}`
}

const BYTES = ['B', 'kB', 'MB', 'GB', 'TB'] as const

/** The first line of a text, cut to a length that a column has room for. */
export function oneLine(text: string, most = 160): string {
  const line = text
    .slice(0, most + 1)
    .replaceAll(/\s+/g, ' ')
    .trim()
  return text.length > most ? `${line.slice(0, most)}…` : line
}
