import type { Attributes, Meter, ObservableCallback, ObservableResult } from '@opentelemetry/api'
import type { MeteredClaim } from '../statistics/meter.ts'
import type { Metrics } from '../statistics/meters.ts'
import type { WatchedCall } from '../telemetry/instrument.ts'
import { destinationOf } from './destination-of.ts'
import type { Guard } from './guard.ts'
import { Kept } from './kept.ts'
import { ATTRIBUTE, METRIC, OPERATION, SYSTEM } from './names.ts'
import { Thinner } from './thinner.ts'

/** What OpenTelemetry measures: durations as they happen, and counters when they are read. */
export class Measurements {
  readonly #guard: Guard
  readonly #operation: Measure
  readonly #process: Measure
  readonly #wait: Measure
  readonly #batch: Measure
  readonly #calls = new Thinner()
  readonly #waits = new Thinner()
  readonly #sends = new Kept((to) => attributesOf(OPERATION.send, to))
  readonly #receives = new Kept((queue) => attributesOf(OPERATION.receive, queue))
  readonly #processes = new Kept((queue) => attributesOf(OPERATION.process, queue))

  constructor(meter: Meter, read: () => Metrics, guard: Guard) {
    this.#guard = guard
    this.#operation = this.#histogram(meter, METRIC.operation, 's', SECONDS, 'Enqueues and claims.')
    this.#process = this.#histogram(meter, METRIC.process, 's', SECONDS, 'Calls of handlers.')
    const waiting = 'From when a message was due until its handler began.'
    this.#wait = this.#histogram(meter, METRIC.wait, 's', LONG_SECONDS, waiting)
    this.#batch = this.#histogram(meter, METRIC.batch, '{message}', SIZES, 'Messages that a claim took.')
    countWhenRead(meter, read, guard)
  }

  sent(to: string, tookMs: number): void {
    this.#operation(tookMs / 1_000, this.#sends.of(to))
  }

  claimed(queue: string, { sentAtMs, answeredAtMs, rows }: MeteredClaim): void {
    const attributes = this.#receives.of(queue)
    this.#operation((answeredAtMs - sentAtMs) / 1_000, attributes)
    this.#batch(rows.length, attributes)
  }

  handled({ queue, messages }: WatchedCall, startedAtMs: number): void {
    const nowMs = performance.now()
    if (this.#calls.takes(nowMs)) this.#process((nowMs - startedAtMs) / 1_000, this.#processes.of(queue))
    for (const { waitedMs } of messages)
      if (waitedMs !== undefined && this.#waits.takes(nowMs))
        this.#wait(Math.max(0, waitedMs) / 1_000, this.#processes.of(queue))
  }

  #histogram(meter: Meter, name: string, unit: string, bounds: number[], description: string): Measure {
    const guard = this.#guard
    const options = { unit, advice: { explicitBucketBoundaries: bounds }, description }
    const histogram = guard.try(() => meter.createHistogram(name, options)) ?? undefined
    return (value, attributes) => guard.try(() => histogram?.record(value, attributes))
  }
}

type Measure = (value: number, attributes: Attributes) => void

/** As the conventions have them. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const LONG_SECONDS = [...SECONDS, 30, 60, 300, 900, 3_600]
const SIZES = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000]
const OUTCOMES = ['acked', 'retried', 'snoozed', 'dead'] as const

function attributesOf(operation: string, to: string): Attributes {
  return { [ATTRIBUTE.system]: SYSTEM, [ATTRIBUTE.operation]: operation, ...destinationOf(to) }
}

/** The process counts anyway: nothing is added for each message. */
function countWhenRead(meter: Meter, read: () => Metrics, guard: Guard): void {
  const counter = (name: string, description: string, observeAll: ObservableCallback) => {
    const made = guard.try(() => meter.createObservableCounter(name, { unit: '{message}', description }))
    guard.try(() => made?.addCallback(observeAll))
  }
  counter(METRIC.sent, 'Messages and events that were sent.', (result) => {
    const { enqueued, appended } = read()
    for (const counts of [enqueued, appended]) observe(result, OPERATION.send, counts)
  })
  counter(METRIC.consumed, 'Messages whose handler began.', (result) => {
    const begun = Object.entries(read().consumed).map(([queue, { waiting }]) => [queue, waiting.count] as const)
    observe(result, OPERATION.process, Object.fromEntries(begun))
  })
  counter(METRIC.settled, 'Messages by what became of them.', (result) => {
    for (const [queue, counts] of Object.entries(read().consumed))
      for (const outcome of OUTCOMES)
        result.observe(counts[outcome], { ...attributesOf(OPERATION.process, queue), [ATTRIBUTE.outcome]: outcome })
  })
}

function observe(result: ObservableResult, operation: string, counts: Readonly<Record<string, number>>): void {
  for (const [name, count] of Object.entries(counts)) result.observe(count, attributesOf(operation, name))
}
