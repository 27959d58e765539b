import type { Attributes, Histogram, Meter, ObservableResult } from '@opentelemetry/api'
import type { MeteredClaim } from '../statistics/meter.ts'
import type { Metrics } from '../statistics/meters.ts'
import type { WatchedCall } from '../telemetry/instrument.ts'
import { destinationOf } from './handler-span.ts'
import { ATTRIBUTE, METRIC, OPERATION, SYSTEM } from './names.ts'
import { Thinner } from './thinner.ts'

/** What OpenTelemetry measures: durations as they happen, and counters when they are read. */
export class Measurements {
  readonly #operation: Histogram
  readonly #process: Histogram
  readonly #wait: Histogram
  readonly #batch: Histogram
  readonly #calls = new Thinner()
  readonly #waits = new Thinner()
  /** The same objects for each message: to make them would take longer than the rest. */
  readonly #attributes = new Map<string, Attributes>()

  constructor(meter: Meter, read: () => Metrics) {
    const seconds = { unit: 's', advice: { explicitBucketBoundaries: SECONDS } }
    this.#operation = meter.createHistogram(METRIC.operation, { ...seconds, description: 'Enqueues and claims.' })
    this.#process = meter.createHistogram(METRIC.process, { ...seconds, description: 'Calls of handlers.' })
    this.#wait = meter.createHistogram(METRIC.wait, {
      unit: 's',
      advice: { explicitBucketBoundaries: LONG_SECONDS },
      description: 'From when a message was due until its handler began.',
    })
    this.#batch = meter.createHistogram(METRIC.batch, {
      unit: '{message}',
      advice: { explicitBucketBoundaries: SIZES },
      description: 'Messages that a claim took.',
    })
    countWhenRead(meter, read)
  }

  sent(to: string, tookMs: number): void {
    this.#operation.record(tookMs / 1_000, this.#of(OPERATION.send, to))
  }

  claimed(queue: string, { sentAtMs, answeredAtMs, rows }: MeteredClaim): void {
    const attributes = this.#of(OPERATION.receive, queue)
    this.#operation.record((answeredAtMs - sentAtMs) / 1_000, attributes)
    this.#batch.record(rows.length, attributes)
  }

  handled({ queue, messages }: WatchedCall, startedAtMs: number): void {
    const nowMs = performance.now()
    if (this.#calls.takes(nowMs))
      this.#process.record((nowMs - startedAtMs) / 1_000, this.#of(OPERATION.process, queue))
    for (const { waitedMs } of messages)
      if (waitedMs !== undefined && this.#waits.takes(nowMs))
        this.#wait.record(Math.max(0, waitedMs) / 1_000, this.#of(OPERATION.process, queue))
  }

  #of(operation: string, to: string): Attributes {
    const key = `${operation} ${to}`
    const known = this.#attributes.get(key)
    if (known !== undefined) return known
    const attributes = attributesOf(operation, to)
    // Not for each of endlessly many queues.
    if (this.#attributes.size < MOST_ATTRIBUTES) this.#attributes.set(key, attributes)
    return attributes
  }
}

const MOST_ATTRIBUTES = 1_000
/** As the conventions have them. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const LONG_SECONDS = [...SECONDS, 30, 60, 300, 900, 3_600]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]
const OUTCOMES = ['acked', 'retried', 'snoozed', 'dead'] as const

function attributesOf(operation: string, to: string): Attributes {
  return { [ATTRIBUTE.system]: SYSTEM, [ATTRIBUTE.operation]: operation, ...destinationOf(to) }
}

/** The process counts anyway: nothing is added for each message. */
function countWhenRead(meter: Meter, read: () => Metrics): void {
  const counter = (name: string, description: string) =>
    meter.createObservableCounter(name, { unit: '{message}', description })
  counter(METRIC.sent, 'Messages and events that were sent.').addCallback((result) => {
    const { enqueued, appended } = read()
    for (const counts of [enqueued, appended]) observe(result, OPERATION.send, counts)
  })
  counter(METRIC.consumed, 'Messages whose handler began.').addCallback((result) => {
    const begun = Object.entries(read().consumed).map(([queue, { waiting }]) => [queue, waiting.count] as const)
    observe(result, OPERATION.process, Object.fromEntries(begun))
  })
  counter(METRIC.settled, 'Messages by what became of them.').addCallback((result) => {
    for (const [queue, counts] of Object.entries(read().consumed))
      for (const outcome of OUTCOMES)
        result.observe(counts[outcome], { ...attributesOf(OPERATION.process, queue), [ATTRIBUTE.outcome]: outcome })
  })
}

function observe(result: ObservableResult, operation: string, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) result.observe(count, attributesOf(operation, name))
}
