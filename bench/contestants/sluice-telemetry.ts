import { MeterProvider, PeriodicExportingMetricReader, type PushMetricExporter } from '@opentelemetry/sdk-metrics'
import {
  AlwaysOnSampler,
  BasicTracerProvider,
  BatchSpanProcessor,
  type SpanExporter,
  TraceIdRatioBasedSampler,
} from '@opentelemetry/sdk-trace-base'
import { createSluice } from '../../src/index.ts'
import { instrument } from '../../src/otel.ts'
import type { Contestant } from '../contestant.ts'
import { messageTable } from './message-table.ts'
import { consume, sluice } from './sluice.ts'

/** What a collector would get goes nowhere: the cost of a network is not ours. */
const SPANS_NOWHERE: SpanExporter = {
  export: (_, done) => done({ code: 0 }),
  shutdown: async () => undefined,
}
const METRICS_NOWHERE: PushMetricExporter = {
  export: (_, done) => done({ code: 0 }),
  forceFlush: async () => undefined,
  shutdown: async () => undefined,
}

/** Of the messages, this share has spans. */
function withTelemetry(name: string, what: string, spans: number): Contestant {
  return {
    name,
    title: `${sluice.title}, ${what}`,
    guarantee: 'As Sluice',
    onlyIn: 'telemetry',
    ...messageTable,
    consumes: {
      configuration: `instrument(createSluice(…)) with OpenTelemetry's SDK: ${what}, read every ten seconds and dropped`,
      run: async (url, spec) => {
        const reader = new PeriodicExportingMetricReader({ exporter: METRICS_NOWHERE, exportIntervalMillis: 10_000 })
        const meterProvider = new MeterProvider({ readers: [reader] })
        const tracerProvider = spans > 0 && tracer(spans)
        const consumer = consume(instrument(createSluice({ connection: url }), { tracerProvider, meterProvider }), spec)
        return {
          stop: async () => {
            await consumer.stop()
            await meterProvider.shutdown()
            if (tracerProvider) await tracerProvider.shutdown()
          },
        }
      },
    },
  }
}

function tracer(share: number): BasicTracerProvider {
  return new BasicTracerProvider({
    sampler: share === 1 ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(share),
    spanProcessors: [new BatchSpanProcessor(SPANS_NOWHERE)],
  })
}

export const sluiceMetrics = withTelemetry('sluice-metrics', 'metrics', 0)
export const sluiceSampled = withTelemetry('sluice-sampled', 'metrics, and spans for one message in a hundred', 0.01)
export const sluiceSpans = withTelemetry('sluice-spans', 'metrics, and spans for each message', 1)
