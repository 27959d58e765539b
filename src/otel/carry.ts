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
import type { Guard } from './guard.ts'

/** The W3C trace context of a span; undefined: nothing traces here. */
export function carried(span: Span, guard: Guard): TraceContext | undefined {
  const context = guard.try(() => span.spanContext())
  const traceparent = context && guard.try(() => traceparentOf(context))
  if (traceparent === undefined) return undefined
  const tracestate = guard.try(() => context?.traceState?.serialize())
  // The other side takes no other, and PostgreSQL refuses some characters in JSON.
  return typeof tracestate === 'string' && STATE.test(tracestate) ? { traceparent, tracestate } : { traceparent }
}

function traceparentOf(context: SpanContext): string | undefined {
  if (!isSpanContextValid(context)) return undefined
  const flags = (context.traceFlags & 0xff).toString(16).padStart(2, '0')
  return `00-${context.traceId}-${context.spanId}-${flags}`.toLowerCase()
}

/** The span that enqueued a message with these headers. What is malformed counts as none. */
export function senderOf(headers: string): SpanContext | undefined {
  const alone = ALONE.exec(headers)
  if (alone !== null) return spanContextOf(alone)
  const found = traceContextOf(headers)
  const parent = PARENT.exec(found?.traceparent ?? '')
  if (found === undefined || parent === null) return undefined
  const context = spanContextOf(parent)
  return found.tracestate === undefined ? context : { ...context, traceState: createTraceState(found.tracestate) }
}

function spanContextOf([, traceId = '', spanId = '', flags = '']: readonly string[]): SpanContext {
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true }
}

export function contextOf(sender: SpanContext | undefined): Context {
  return sender === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, sender)
}

/** As the standard has it. */
const STATE = /^[\x20-\x7e]{1,512}$/

const IDS = '(?!ff)[\\da-f]{2}-(?!0{32})([\\da-f]{32})-(?!0{16})([\\da-f]{16})-([\\da-f]{2})'
/** Later versions may have more behind the flags. */
const PARENT = new RegExp(`^${IDS}(?:$|-)`)
/** Headers as PostgreSQL writes them, with nothing else: to parse them as JSON takes twice as long. */
const ALONE = new RegExp(`^\\{"traceparent": "${IDS}"\\}$`)
