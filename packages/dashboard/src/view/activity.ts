import type { BacklogSample, QueueActivity } from 'sluice'
import { backlogCharts } from './backlog.ts'
import { type Chart, chart, type Series } from './chart.ts'
import { type Html, html } from './html.ts'
import { firstMinute, MINUTE_MS, MINUTES } from './last-hour.ts'
import { section } from './parts.ts'
import { durationWords } from './text.ts'

/** What was done in a queue in the last hour, by minutes: see `operate.queues.activity`. */
export function activityPart(steps: readonly QueueActivity[], samples: readonly BacklogSample[], now: Date): Html {
  const minutes = byMinute(steps, now)
  const line = (
    name: string,
    kind: Series['kind'],
    say: Series['say'],
    read: (step: QueueActivity) => number | null,
  ): Series => ({ name, kind, say, values: minutes.map((step) => (step === undefined ? null : read(step))) })
  const charts: readonly Chart[] = [
    { title: 'Handled', shape: 'columns', series: [line('handled', 'main', perSecond, ({ acked }) => acked)] },
    { title: 'Failed', shape: 'columns', series: [line('failed', 'second', perMinute, failed)] },
    {
      title: 'Waited',
      shape: 'lines',
      series: [
        line('p50', 'main', durationWords, ({ waitingP50Ms }) => waitingP50Ms),
        line('p99', 'second', durationWords, ({ waitingP99Ms }) => waitingP99Ms),
      ],
    },
    {
      title: 'Took',
      shape: 'lines',
      series: [
        line('p50', 'main', durationWords, ({ handlingP50Ms }) => handlingP50Ms),
        line('p99', 'second', durationWords, ({ handlingP99Ms }) => handlingP99Ms),
      ],
    },
  ]
  return section(
    'activity',
    'The last hour',
    html`<div class="charts">${(steps.length === 0 ? charts.slice(0, 1) : charts).map(chart)}${backlogCharts(samples, now)}</div>`,
  )
}

/** What all queues have handled in the last hour, and what they had to do. */
export function overviewCharts(steps: readonly QueueActivity[], samples: readonly BacklogSample[], now: Date): Html {
  const first = firstMinute(now)
  const values = Array.from({ length: MINUTES }, () => 0)
  for (const { at, acked } of steps) {
    const minute = Math.round((at.getTime() - first) / MINUTE_MS)
    if (minute >= 0 && minute < MINUTES) values[minute] = (values[minute] ?? 0) + acked
  }
  const series: readonly Series[] = [{ name: 'handled', kind: 'main', values, say: perSecond }]
  const handled = chart({ title: 'Handled', shape: 'columns', series })
  return html`<div class="charts">${handled}${backlogCharts(samples, now)}</div>`
}

/** One for each of the last sixty minutes, the oldest first. */
function byMinute(steps: readonly QueueActivity[], now: Date): readonly (QueueActivity | undefined)[] {
  const first = firstMinute(now)
  const at = new Map(steps.map((step) => [Math.round((step.at.getTime() - first) / MINUTE_MS), step]))
  return Array.from({ length: MINUTES }, (_, minute) => at.get(minute))
}

function failed({ retried, dead }: QueueActivity): number {
  return retried + dead
}

/** Of the messages of a minute. */
function perSecond(count: number): string {
  const rate = count / 60
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString('en-US')}/s`
}

function perMinute(count: number): string {
  return `${count.toLocaleString('en-US')} a minute`
}
