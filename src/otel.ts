// Traces and metrics for OpenTelemetry. It needs the package @opentelemetry/api.

export type { Join } from './otel/handler-span.ts'
export { type InstrumentOptions, instrument } from './otel/instrument.ts'
