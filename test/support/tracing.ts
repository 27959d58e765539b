import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  AggregationTemporality,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
} from '@opentelemetry/sdk-metrics'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-base'
import { onTestFinished } from 'vitest'

/** What a process of an application sets up: spans and metrics that stay in memory. */
export function startTracing() {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  const spans = new InMemorySpanExporter()
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] })
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })
  const meterProvider = new MeterProvider({ readers: [reader] })
  onTestFinished(async () => {
    context.disable()
    await Promise.all([tracerProvider.shutdown(), meterProvider.shutdown()])
  })
  return {
    providers: { tracerProvider, meterProvider },
    tracer: tracerProvider.getTracer('test'),
    spans: (name: string): readonly ReadableSpan[] => spans.getFinishedSpans().filter((span) => span.name === name),
    /** The data points of each metric, as they are now. */
    metrics: async () => {
      exporter.reset()
      await reader.forceFlush()
      const [read] = exporter.getMetrics().slice(-1)
      const all = read?.scopeMetrics.flatMap(({ metrics }) => metrics) ?? []
      return Object.fromEntries(
        all.map(({ descriptor, dataPoints }) => [
          descriptor.name,
          dataPoints.map(({ attributes, value }) => ({ attributes, value })),
        ]),
      )
    },
  }
}

/** The id of the span that is active here. */
export function activeSpanId(): string | undefined {
  return trace.getActiveSpan()?.spanContext().spanId
}
