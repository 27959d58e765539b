import {
  type Context,
  createTraceState,
  isSpanContextValid,
  ROOT_CONTEXT,
  type Span,
  type SpanContext,
  trace,
} from '@opentelemetry/api'
import { type TraceContext, traceContextOf } from '../telemetry/trace-context.ts'

/** The W3C trace context of a span; undefined: nothing traces here. */
export function carried(span: Span): TraceContext | undefined {
  const context = span.spanContext()
  if (!isSpanContextValid(context)) return undefined
  const flags = (context.traceFlags & 0xff).toString(16).padStart(2, '0')
  const tracestate = context.traceState?.serialize()
  const traceparent = `00-${context.traceId}-${context.spanId}-${flags}`
  return tracestate ? { traceparent, tracestate } : { traceparent }
}

/** The span that enqueued a message with these headers. What is malformed counts as none. */
export function senderOf(headers: string): SpanContext | undefined {
  const found = traceContextOf(headers)
  const [, version, traceId, spanId, flags] = PARENT.exec(found?.traceparent ?? '') ?? []
  if (traceId === undefined || spanId === undefined || version === 'ff') return undefined
  const state = found?.tracestate === undefined ? {} : { traceState: createTraceState(found.tracestate) }
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags ?? '0', 16), isRemote: true, ...state }
  return isSpanContextValid(context) ? context : undefined
}

export function contextOf(sender: SpanContext | undefined): Context {
  return sender === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, sender)
}

/** Later versions may have more behind the flags. */
const PARENT = /^([\da-f]{2})-([\da-f]{32})-([\da-f]{16})-([\da-f]{2})(?:$|-)/
