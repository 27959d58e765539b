import parse from 'parse-prometheus-text-format'
import { expect, test } from 'vitest'
import { prometheus } from '../../../src/prometheus/prometheus.ts'
import { Meter } from '../../../src/statistics/meter.ts'
import { Meters } from '../../../src/statistics/meters.ts'

interface Parsed {
  readonly name: string
  readonly type: string
  readonly metrics: readonly Readonly<Record<string, unknown>>[]
}

function parsed(text: string): Readonly<Record<string, Parsed>> {
  return Object.fromEntries((parse(text) as Parsed[]).map((family) => [family.name, family]))
}

/** A consumer that has handled two messages of one claim. */
function metered(): Meters {
  const [meters, meter] = [new Meters(), new Meter()]
  meters.open('mail', meter)
  meter.claimed({ sentAtMs: 100, answeredAtMs: 104, rows: [1, 2] })
  meter.handled(0, 30)
  meter.handled(0, 700)
  meter.settled({ acked: 1, retried: 1, snoozed: 0, dead: 0 })
  meters.sent('enqueue', 'mail', 3)
  meters.sent('append', 'orders', 2)
  return meters
}

test('a parser of the Prometheus format reads every family that the process has', () => {
  const families = parsed(prometheus(metered().readMetrics()))
  expect(Object.values(families).map(({ name, type }) => `${type} ${name}`)).toEqual([
    'COUNTER sluice_messages_enqueued_total',
    'COUNTER sluice_events_appended_total',
    'COUNTER sluice_messages_settled_total',
    'HISTOGRAM sluice_message_waiting_seconds',
    'HISTOGRAM sluice_handler_seconds',
    'HISTOGRAM sluice_claim_seconds',
    'HISTOGRAM sluice_batch_size',
  ])
  expect(families.sluice_messages_enqueued_total?.metrics).toEqual([{ value: '3', labels: { queue: 'mail' } }])
  expect(families.sluice_messages_settled_total?.metrics).toContainEqual({
    value: '1',
    labels: { queue: 'mail', outcome: 'retried' },
  })
})

test('histograms count up to each bound, in seconds', () => {
  const text = prometheus(metered().readMetrics())
  const [handler] = parsed(text).sluice_handler_seconds!.metrics
  expect(handler?.buckets).toMatchObject({ '0.025': '0', '0.05': '1', '0.5': '1', '1': '2', '+Inf': '2' })
  // The parser drops these where they have labels.
  expect(text).toContain(
    'sluice_handler_seconds_sum{queue="mail"} 0.73\nsluice_handler_seconds_count{queue="mail"} 2\n',
  )
  const [size] = parsed(text).sluice_batch_size!.metrics
  expect(size?.buckets).toMatchObject({ '1': '0', '2': '1', '+Inf': '1' })
})

test('any name of a queue is a label', () => {
  const meters = new Meters()
  const name = 'a"b\\c\nd{},é'
  meters.sent('enqueue', name, 1)
  const text = prometheus(meters.readMetrics())
  expect(parsed(text).sluice_messages_enqueued_total?.metrics).toEqual([{ value: '1', labels: { queue: name } }])
  expect(text.trimEnd().split('\n')).toHaveLength(3)
})

test('a process that has done nothing has no metrics, and no empty families', () => {
  expect(prometheus(new Meters().readMetrics())).toBe('')
})

test('a process that sends to ever new queues keeps a thousand counters', () => {
  const meters = new Meters()
  for (let at = 0; at < 1_500; at++) meters.sent('enqueue', `user.${at}`, 1)
  const { enqueued } = meters.readMetrics()
  expect(Object.keys(enqueued)).toHaveLength(1_001)
  expect(enqueued['(others)']).toBe(500)
})

test('it refuses what are no metrics', () => {
  expect(() => prometheus(undefined as never)).toThrow('prometheus: expected metrics, received undefined')
})
