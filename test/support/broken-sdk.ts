import { type ContextManager, context, ROOT_CONTEXT } from '@opentelemetry/api'
import { onTestFinished } from 'vitest'
import type { InstrumentOptions } from '../../src/otel.ts'
import { raise } from './steps.ts'

/** What can become of a call of an SDK: `go` makes it. */
export type Break = (go: () => unknown) => unknown

/** Ways in which any method can be broken. */
export const BREAKS: Readonly<Record<string, Break>> = {
  throws: () => raise(),
  'rejects in a promise': (go) => {
    go()
    return Promise.reject(new Error('failed later'))
  },
  'returns null': () => null,
}

/** Ways of a context manager, which is given what it is to call. */
export const CONTEXT_BREAKS: Readonly<Record<string, Break>> = {
  'throws when it has done its work': (go) => raise(go()),
  'throws what cannot be read': () =>
    raise(new Proxy({}, { get: () => raise(), getPrototypeOf: () => raise(), has: () => raise() })),
  'never calls': () => undefined,
  'calls twice': (go) => [go(), go()],
  'calls later': (go) => void setImmediate(go),
  'returns something else': (go) => {
    go()
    return 7
  },
}

/** An SDK of which one method is broken; it keeps which of its methods have been called. */
export function brokenSdk(method: string, how: Break, tracestate: unknown = 'vendor=1') {
  const called = new Set<string>()
  const at = <T>(name: string, go: () => T): T => {
    called.add(name)
    return (name === method ? how(go) : go()) as T
  }
  const traceState = { serialize: () => at('serialize', () => tracestate) }
  const spanContext = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16), traceFlags: 1, traceState }
  const plain = (name: string) => () => at(name, () => undefined)
  const span = {
    spanContext: () => at('spanContext', () => spanContext),
    ...Object.fromEntries(['setAttribute', 'setStatus', 'recordException', 'end'].map((name) => [name, plain(name)])),
  }
  const recorder = { record: plain('record') }
  const counter = { addCallback: plain('addCallback') }
  const meter = {
    createHistogram: () => at('createHistogram', () => recorder),
    createObservableCounter: () => at('createObservableCounter', () => counter),
  }
  const tracer = { startSpan: () => at('startSpan', () => span) }
  const options = {
    tracerProvider: { getTracer: () => at('getTracer', () => tracer) },
    meterProvider: { getMeter: () => at('getMeter', () => meter) },
  }
  setContextManager({
    active: () => at('active', () => ROOT_CONTEXT),
    with: ((_: unknown, work: () => unknown) => at('with', work)) as ContextManager['with'],
  })
  return { options: options as unknown as InstrumentOptions, called: called as ReadonlySet<string> }
}

function setContextManager(own: Pick<ContextManager, 'active' | 'with'>): void {
  const manager: ContextManager = { ...own, bind: (_, target) => target, enable: () => manager, disable: () => manager }
  context.setGlobalContextManager(manager)
  onTestFinished(() => context.disable())
}
