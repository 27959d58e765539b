import { type Span, SpanStatusCode } from '@opentelemetry/api'
import { errorText, isSluiceError, toError } from '../errors.ts'
import type { Guard } from './guard.ts'
import { ATTRIBUTE } from './names.ts'

/** Marks a span as failed by what was thrown. */
export function fail(span: Span, thrown: unknown, guard: Guard): void {
  guard.try(() => span.setStatus({ code: SpanStatusCode.ERROR, message: errorText(thrown) }))
  guard.try(() => span.recordException(toError(thrown)))
  guard.try(() => span.setAttribute(ATTRIBUTE.errorType, errorTypeOf(thrown)))
}

/** Of few values: our codes, those of PostgreSQL and Node, or the name of a class. */
function errorTypeOf(thrown: unknown): string {
  if (isSluiceError(thrown)) return thrown.code
  if (!(thrown instanceof Error)) return '_OTHER'
  const code: unknown = Reflect.get(thrown, 'code')
  return typeof code === 'string' && /^[\w.]{1,40}$/.test(code) ? code : thrown.name
}
