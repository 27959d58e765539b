/**
 * In how many milliseconds a server wants the next request, by its header `Retry-After`: seconds, or a date. A day at most.
 * Undefined: it has not said so, or that time has passed.
 */
export function retryAfterMs(header: string | undefined, nowMs: number): number | undefined {
  if (header === undefined) return undefined
  const text = header.trim()
  const ms = /^\d+$/.test(text) ? Number(text) * 1_000 : Date.parse(text) - nowMs
  return ms > 0 ? Math.min(ms, DAY_MS) : undefined
}

const DAY_MS = 86_400_000
