import { expected } from '../errors.ts'
import type { DatabaseMetrics } from '../operate/metrics.ts'
import type { ConsumerMetrics } from '../statistics/meter.ts'
import type { Metrics } from '../statistics/meters.ts'
import { databaseFamilies } from './database.ts'
import { family, histogramFamily, type Labels, type Sample } from './text.ts'

/**
 * Renders metrics as text that Prometheus, and everything that reads its format, can scrape: those of this process, from
 * `sluice.metrics()`, or those of the database, from `sluice.operate.metrics()`, or both. Serve it with the content type
 * `text/plain; version=0.0.4`.
 *
 * @throws SluiceError OPTION_INVALID
 *
 * @example app.get('/metrics', (c) => c.text(prometheus(sluice.metrics())))
 */
export function prometheus(metrics: Partial<Metrics & DatabaseMetrics>): string {
  if (typeof metrics !== 'object' || metrics === null) {
    throw expected('OPTION_INVALID', 'prometheus', 'metrics', metrics, 'As in prometheus(sluice.metrics())')
  }
  const { enqueued = {}, appended = {}, consumed = {} } = metrics
  return [
    family('sluice_messages_enqueued_total', 'counter', ENQUEUED, samplesOf('queue', enqueued)),
    family('sluice_events_appended_total', 'counter', APPENDED, samplesOf('stream', appended)),
    ...consumedFamilies(Object.entries(consumed)),
    ...databaseFamilies(metrics),
  ].join('')
}

const ENQUEUED = 'Messages that this process has enqueued, also in transactions that were rolled back.'
const APPENDED = 'Events that this process has appended, also in transactions that were rolled back.'
const OUTCOMES = ['acked', 'retried', 'snoozed', 'dead'] as const

function consumedFamilies(all: readonly (readonly [queue: string, ConsumerMetrics])[]): readonly string[] {
  const settled = all.flatMap(([queue, counts]) =>
    OUTCOMES.map((outcome): Sample => [{ queue, outcome }, counts[outcome]]),
  )
  const of = (part: 'waiting' | 'handling' | 'claiming' | 'batchSize') =>
    all.map(([queue, metrics]): readonly [Labels, ConsumerMetrics[typeof part]] => [{ queue }, metrics[part]])
  return [
    family('sluice_messages_settled_total', 'counter', 'Messages by what became of them.', settled),
    histogramFamily(
      'sluice_message_waiting_seconds',
      'From when a message was due until its handler began.',
      of('waiting'),
      1_000,
    ),
    histogramFamily('sluice_handler_seconds', 'How long calls of the handler took.', of('handling'), 1_000),
    histogramFamily('sluice_claim_seconds', 'How long claims that found messages took.', of('claiming'), 1_000),
    histogramFamily('sluice_batch_size', 'How many messages a claim took.', of('batchSize'), 1),
  ]
}

function samplesOf(label: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([name, count]) => [{ [label]: name }, count])
}
