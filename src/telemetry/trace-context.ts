/** Where a trace stands, as its W3C headers say it. It goes with a message in its headers, under the same names. */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string | undefined
}

/** The trace context among the headers of a message, which are JSON. Other types are ignored. */
export function traceContextOf(headers: string): TraceContext | undefined {
  // Most messages have none, and to parse the headers takes as long as all the rest of it.
  if (!headers.includes('"traceparent"')) return undefined
  const { traceparent, tracestate } = JSON.parse(headers) as Readonly<Record<string, unknown>>
  if (typeof traceparent !== 'string') return undefined
  return typeof tracestate === 'string' ? { traceparent, tracestate } : { traceparent }
}

/** The trace id of a message with these headers. */
export function traceIdOf(headers: string): string | undefined {
  return /^[\da-f]{2}-([\da-f]{32})-/.exec(traceContextOf(headers)?.traceparent ?? '')?.[1]
}

/**
 * Adds the trace context to headers, unless the caller has given a `traceparent`. The text of the others stays as it is,
 * because JSON.parse would change large numbers.
 */
export function withTraceContext(headers: string, context: TraceContext): string {
  if (headers === '{}') return JSON.stringify(context)
  if (/"trace(parent|state)"/.test(headers) && hasTraceHeader(headers)) return headers
  return `${headers.slice(0, -1)},${JSON.stringify(context).slice(1)}`
}

function hasTraceHeader(headers: string): boolean {
  const given = JSON.parse(headers) as object
  return Object.hasOwn(given, 'traceparent') || Object.hasOwn(given, 'tracestate')
}
