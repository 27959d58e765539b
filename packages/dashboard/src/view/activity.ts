import type { BacklogSample, QueueActivity } from 'sluice'
import { type Chart, chart, type Series } from './chart.ts'
import { type Html, html } from './html.ts'
import { section } from './parts.ts'
import { age } from './text.ts'

const MINUTES = 60
const MINUTE_MS = 60_000

/** What was done in a queue in the last hour, by minutes: see `operate.queues.activity`. */
export function activityPart(steps: readonly QueueActivity[], samples: readonly BacklogSample[], now: Date): Html {
  const minutes = byMinute(steps, now)
  const line = (name: string, kind: Series['kind'], read: (step: QueueActivity) => number | null): Series => ({
    name,
    kind,
    values: minutes.map((step) => (step === undefined ? null : read(step))),
  })
  const charts: readonly Chart[] = [
    { title: 'Handled', shape: 'columns', say: perSecond, series: [line('handled', 'main', ({ acked }) => acked)] },
    { title: 'Failed', shape: 'columns', say: perMinute, series: [line('failed', 'second', failed)] },
    {
      title: 'Waited',
      shape: 'lines',
      say: age,
      series: [
        line('p50', 'main', ({ waitingP50Ms }) => waitingP50Ms),
        line('p99', 'second', ({ waitingP99Ms }) => waitingP99Ms),
      ],
    },
    {
      title: 'Took',
      shape: 'lines',
      say: age,
      series: [
        line('p50', 'main', ({ handlingP50Ms }) => handlingP50Ms),
        line('p99', 'second', ({ handlingP99Ms }) => handlingP99Ms),
      ],
    },
  ]
  return section(
    'activity',
    'The last hour',
    html`<div class="charts">${charts.map(chart)}${backlogCharts(samples, now)}</div>`,
  )
}

/** What a queue had to do in the last hour, and what a group had to read. Maintenance looks every five minutes by default. */
export function backlogCharts(samples: readonly BacklogSample[], now: Date): Html {
  const isOfGroup = samples.some(({ unread }) => unread > 0)
  const sampled = (name: string, kind: Series['kind'], read: (sample: BacklogSample) => number | null): Series => ({
    name,
    kind,
    values: bySample(samples, now, read),
  })
  const charts: readonly Chart[] = [
    {
      title: 'Backlog',
      shape: 'lines',
      say: messages,
      series: [
        sampled('due', 'main', ({ due }) => due),
        ...(isOfGroup ? [sampled('unread', 'second', ({ unread }) => unread)] : []),
      ],
    },
    {
      title: 'Lag',
      shape: 'lines',
      say: age,
      series: [sampled('oldest', 'main', (one) => Math.max(one.oldestDueAgeMs ?? 0, one.oldestUnreadAgeMs ?? 0))],
    },
  ]
  return html`${charts.map(chart)}`
}

/** One value for each minute: that of the last sample before it, until it is too old. */
function bySample(
  samples: readonly BacklogSample[],
  now: Date,
  read: (sample: BacklogSample) => number | null,
): readonly (number | null)[] {
  const first = firstMinute(now)
  return Array.from({ length: MINUTES }, (_, minute) => {
    const atMs = first + (minute + 1) * MINUTE_MS
    const sample = samples.findLast(({ at }) => at.getTime() < atMs)
    return sample === undefined || atMs - sample.at.getTime() > SAMPLE_MS ? null : read(sample)
  })
}

/** A pass of maintenance may be late. */
const SAMPLE_MS = 7 * MINUTE_MS

/** What all queues have handled in the last hour. */
export function handledChart(steps: readonly QueueActivity[], now: Date): Html {
  const first = firstMinute(now)
  const values = Array.from({ length: MINUTES }, () => 0)
  for (const { at, acked } of steps) {
    const minute = Math.round((at.getTime() - first) / MINUTE_MS)
    if (minute >= 0 && minute < MINUTES) values[minute] = (values[minute] ?? 0) + acked
  }
  const series: readonly Series[] = [{ name: 'handled', kind: 'main', values }]
  return html`<div class="charts">${chart({ title: 'Handled', shape: 'columns', say: perSecond, series })}</div>`
}

/** One for each of the last sixty minutes, the oldest first. */
function byMinute(steps: readonly QueueActivity[], now: Date): readonly (QueueActivity | undefined)[] {
  const first = firstMinute(now)
  const at = new Map(steps.map((step) => [Math.round((step.at.getTime() - first) / MINUTE_MS), step]))
  return Array.from({ length: MINUTES }, (_, minute) => at.get(minute))
}

function firstMinute(now: Date): number {
  return Math.floor(now.getTime() / MINUTE_MS) * MINUTE_MS - (MINUTES - 1) * MINUTE_MS
}

function failed({ retried, dead }: QueueActivity): number {
  return retried + dead
}

/** Of the messages of a minute. */
function perSecond(count: number): string {
  const rate = count / 60
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en-US')}/s`
}

/** They are counted up to 10,000. */
function messages(count: number): string {
  return count >= 10_000 ? '10,000+' : count.toLocaleString('en-US')
}

function perMinute(count: number): string {
  return `${count.toLocaleString('en-US')} a minute`
}
