import { type MeterProvider, metrics, type Tracer, type TracerProvider, trace } from '@opentelemetry/api'
import { checkKeys } from '../basics/checks/check-keys.ts'
import { VERSION } from '../basics/version.ts'
import { expected, SluiceError } from '../errors.ts'
import { internalsOf } from '../process/internals.ts'
import type { Sluice } from '../sluice.ts'
import type { Instrument, Send, Watch, WatchedCall } from '../telemetry/instrument.ts'
import type { TraceContext } from '../telemetry/trace-context.ts'
import { Guard } from './guard.ts'
import { HandlerSpans, type Join } from './handler-span.ts'
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
  const { instruments, report } = internalsOf(sluice)
  checkKeys(
    'instrument',
    options,
    ['tracerProvider', 'meterProvider', 'join'],
    "As in instrument(sluice, { join: 'link' })",
  )
  const { tracerProvider = trace, meterProvider = metrics, join = 'parent' } = options
  if (join !== 'parent' && join !== 'link')
    throw expected('OPTION_INVALID', 'instrument.join', "'parent' or 'link'", join)
  checkProvider('tracerProvider', tracerProvider, 'getTracer')
  checkProvider('meterProvider', meterProvider, 'getMeter')
  if (instruments.current !== undefined) {
    throw new SluiceError('OPTION_INVALID', 'instrument: expected a Sluice without instruments, received one with them')
  }
  const guard = new Guard(report)
  const meter = meterProvider === false ? undefined : guard.try(() => meterProvider.getMeter('sluice', VERSION))
  const measurements = meter && new Measurements(meter, () => sluice.metrics(), guard)
  const tracer = tracerProvider === false ? undefined : guard.try(() => tracerProvider.getTracer('sluice', VERSION))
  instruments.current = new OpenTelemetry(guard, tracer ?? undefined, join, measurements ?? undefined)
  return sluice
}

/** @throws SluiceError OPTION_INVALID */
function checkProvider(option: string, provider: object | false, method: string): void {
  if (provider === false || typeof Reflect.get(Object(provider), method) === 'function') return
  throw expected('OPTION_INVALID', `instrument.${option}`, `false or an object with the method ${method}`, provider)
}

class OpenTelemetry implements Instrument {
  readonly #guard: Guard
  readonly #tracer: Tracer | undefined
  readonly #spans: HandlerSpans | undefined
  readonly #measurements: Measurements | undefined

  constructor(guard: Guard, tracer: Tracer | undefined, join: Join, measurements: Measurements | undefined) {
    this.#guard = guard
    this.#tracer = tracer
    this.#spans = tracer && new HandlerSpans(tracer, join, guard)
    this.#measurements = measurements
  }

  async send<T>(send: Send, run: (context: TraceContext | undefined) => Promise<T[]>): Promise<T[]> {
    const startedAtMs = performance.now()
    const tracer = this.#tracer
    const answers = await (tracer === undefined ? run(undefined) : sendInSpan(tracer, this.#guard, send, run))
    this.#measurements?.sent(send.to, performance.now() - startedAtMs)
    return answers
  }

  handle(call: WatchedCall): Watch {
    return new HandlerWatch(call, this.#spans?.start(call), this.#measurements)
  }

  claimed(queue: string, claim: Parameters<Instrument['claimed']>[1]): void {
    this.#measurements?.claimed(queue, claim)
  }
}

class HandlerWatch implements Watch {
  readonly #call: WatchedCall
  readonly #span: Watch | undefined
  readonly #measurements: Measurements | undefined
  readonly #startedAtMs = performance.now()

  constructor(call: WatchedCall, span: Watch | undefined, measurements: Measurements | undefined) {
    this.#call = call
    this.#span = span
    this.#measurements = measurements
  }

  run<T>(call: () => T): T {
    return this.#span === undefined ? call() : this.#span.run(call)
  }

  ended(outcomes: readonly { readonly kind: string }[]): void {
    this.#span?.ended(outcomes)
    this.#measure()
  }

  failed(error: unknown): void {
    this.#span?.failed(error)
    this.#measure()
  }

  #measure(): void {
    this.#measurements?.handled(this.#call, this.#startedAtMs)
  }
}
