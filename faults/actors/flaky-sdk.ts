import { type ContextManager, context } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { MeterProvider } from '@opentelemetry/sdk-metrics'
import { BasicTracerProvider } from '@opentelemetry/sdk-trace-base'
import type { InstrumentOptions } from '../../src/otel.ts'
import { block } from './block.ts'

/** Of the calls of an SDK, the share that throws, and that takes long. */
const THROWS = 0.1
const IS_SLOW = 0.01
const SLOW_MS = 20

/** OpenTelemetry's own SDK, with its context manager, each method of which may throw before or after its work, and be slow. */
export function startFlakySdk(): InstrumentOptions {
  const manager = flaky(new AsyncLocalStorageContextManager().enable()) as ContextManager
  context.setGlobalContextManager(manager)
  const [tracers, meters] = [new BasicTracerProvider(), new MeterProvider()]
  // Without a tracer or a meter there would be nothing else to fail.
  return {
    tracerProvider: { getTracer: (...args) => flaky(tracers.getTracer(...args)) },
    meterProvider: { getMeter: (...args) => flaky(meters.getMeter(...args)) },
  }
}

/** What its methods return is flaky as well. */
function flaky<T extends object>(target: T): T {
  return new Proxy(target, {
    get: (_, name) => {
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? (...args: unknown[]) => call(target, value as Method, args) : value
    },
  })
}

type Method = (...args: unknown[]) => unknown

function call(target: object, method: Method, args: readonly unknown[]): unknown {
  if (Math.random() < IS_SLOW) block(SLOW_MS)
  if (Math.random() < THROWS / 2) throw new Error('the SDK has failed')
  const returned = method.apply(target, [...args])
  if (Math.random() < THROWS / 2) throw new Error('the SDK has failed, after its work')
  return typeof returned === 'object' && returned !== null ? flaky(returned) : returned
}
