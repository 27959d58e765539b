import { type MeterProvider, metrics, type TracerProvider, trace } from '@opentelemetry/api'
import { checkKeys } from '../basics/check-keys.ts'
import { VERSION } from '../basics/version.ts'
import { expected, SluiceError } from '../errors.ts'
import { internalsOf } from '../process/internals.ts'
import type { Sluice } from '../sluice.ts'
import type { Instrument, Send, Watch, WatchedCall } from '../telemetry/instrument.ts'
import type { TraceContext } from '../telemetry/trace-context.ts'
import { guarded } from './guarded.ts'
import { HandlerSpan, type Join } from './handler-span.ts'
import { Measurements } from './measurements.ts'
import { sendInSpan } from './send-span.ts'

/** What {@link instrument} does. */
export interface InstrumentOptions {
  /** Makes the spans; false: none, and no trace context in messages. @default the global provider */
  readonly tracerProvider?: TracerProvider | false | undefined
  /** Takes the metrics; false: none. @default the global provider */
  readonly meterProvider?: MeterProvider | false | undefined
  /**
   * How the span of a handler belongs to that of its message's enqueue. `parent`: one trace from the enqueue to the last
   * attempt. `link`: each attempt is a trace of its own that links to the enqueue; for messages that wait for days, or
   * enqueue one another endlessly. Handlers of whole batches always link to each message. @default 'parent'
   */
  readonly join?: Join | undefined
}

/**
 * Gives a Sluice traces and metrics of OpenTelemetry, and returns it. Call it once, before it enqueues and consumes, and
 * after the SDK is set up. Without an SDK it costs next to nothing.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example const sluice = instrument(createSluice({ connection: process.env.DATABASE_URL ?? '' }))
 */
export function instrument<Of extends Pick<Sluice, 'metrics'>>(sluice: Of, options: InstrumentOptions = {}): Of {
  const { instruments } = internalsOf(sluice)
  checkKeys(
    'instrument',
    options,
    ['tracerProvider', 'meterProvider', 'join'],
    "As in instrument(sluice, { join: 'link' })",
  )
  const { tracerProvider = trace, meterProvider = metrics, join = 'parent' } = options
  if (join !== 'parent' && join !== 'link')
    throw expected('OPTION_INVALID', 'instrument.join', "'parent' or 'link'", join)
  if (instruments.current !== undefined) {
    throw new SluiceError('OPTION_INVALID', 'instrument: expected a Sluice without instruments, received one with them')
  }
  const measurements =
    meterProvider === false
      ? undefined
      : new Measurements(meterProvider.getMeter('sluice', VERSION), () => sluice.metrics())
  const spans = tracerProvider === false ? undefined : { tracer: tracerProvider.getTracer('sluice', VERSION), join }
  instruments.current = new OpenTelemetry(spans, measurements)
  return sluice
}

type Spans = { readonly tracer: ReturnType<TracerProvider['getTracer']>; readonly join: Join }

class OpenTelemetry implements Instrument {
  readonly #spans: Spans | undefined
  readonly #measurements: Measurements | undefined

  constructor(spans: Spans | undefined, measurements: Measurements | undefined) {
    this.#spans = spans
    this.#measurements = measurements
  }

  async send<T>(send: Send, run: (context: TraceContext | undefined) => Promise<T[]>): Promise<T[]> {
    const startedAtMs = performance.now()
    const spans = this.#spans
    const answers = await (spans === undefined ? run(undefined) : sendInSpan(spans.tracer, send, run))
    guarded(() => this.#measurements?.sent(send.to, performance.now() - startedAtMs))
    return answers
  }

  handle(call: WatchedCall): Watch {
    const spans = this.#spans
    const span = spans && guarded(() => new HandlerSpan(spans.tracer, call, spans.join))
    return new HandlerWatch(call, span, this.#measurements)
  }

  claimed(queue: string, claim: Parameters<Instrument['claimed']>[1]): void {
    guarded(() => this.#measurements?.claimed(queue, claim))
  }
}

class HandlerWatch implements Watch {
  readonly #call: WatchedCall
  readonly #span: HandlerSpan | undefined
  readonly #measurements: Measurements | undefined
  readonly #startedAtMs = performance.now()

  constructor(call: WatchedCall, span: HandlerSpan | undefined, measurements: Measurements | undefined) {
    this.#call = call
    this.#span = span
    this.#measurements = measurements
  }

  run<T>(call: () => T): T {
    return this.#span === undefined ? call() : this.#span.run(call)
  }

  ended(outcomes: readonly { readonly kind: string }[]): void {
    guarded(() => this.#span?.ended(outcomes))
    this.#measure()
  }

  failed(error: unknown): void {
    guarded(() => this.#span?.failed(error))
    this.#measure()
  }

  #measure(): void {
    guarded(() => this.#measurements?.handled(this.#call, this.#startedAtMs))
  }
}
