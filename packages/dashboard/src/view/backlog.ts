import type { BacklogSample } from 'sluice'
import { type Chart, chart, type Series } from './chart.ts'
import { type Html, html } from './html.ts'
import { firstMinute, MINUTE_MS, MINUTES } from './last-hour.ts'
import { durationWords } from './text.ts'

/** What a queue had to do in the last hour, and what a group had to read. */
export function backlogCharts(samples: readonly BacklogSample[], now: Date): Html {
  const isOfGroup = samples.some(({ unread }) => unread > 0)
  const sampled = (name: string, kind: Series['kind'], read: (sample: BacklogSample) => number): Series => ({
    name,
    kind,
    values: byMinute(samples, now, read),
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
      say: durationWords,
      series: [sampled('oldest', 'main', (one) => Math.max(one.oldestDueAgeMs ?? 0, one.oldestUnreadAgeMs ?? 0))],
    },
  ]
  return html`${charts.map(chart)}`
}

/** All queues and groups of each sample as one. */
export function together(samples: readonly BacklogSample[]): readonly BacklogSample[] {
  const byTime = Map.groupBy(samples, ({ at }) => at.getTime())
  return [...byTime]
    .toSorted(([a], [b]) => a - b)
    .map(([ms, all]) => ({
      queue: '',
      at: new Date(ms),
      due: all.reduce((sum, { due }) => sum + due, 0),
      unread: all.reduce((sum, { unread }) => sum + unread, 0),
      oldestDueAgeMs: most(all.map(({ oldestDueAgeMs }) => oldestDueAgeMs)),
      oldestUnreadAgeMs: most(all.map(({ oldestUnreadAgeMs }) => oldestUnreadAgeMs)),
    }))
}

function most(ages: readonly (number | null)[]): number | null {
  const known = ages.filter((one) => one !== null)
  return known.length === 0 ? null : Math.max(...known)
}

/** One value for each minute: that of the last sample before it, until it is too old. */
function byMinute(
  samples: readonly BacklogSample[],
  now: Date,
  read: (sample: BacklogSample) => number,
): readonly (number | null)[] {
  const first = firstMinute(now)
  return Array.from({ length: MINUTES }, (_, minute) => {
    const atMs = first + (minute + 1) * MINUTE_MS
    const sample = samples.findLast(({ at }) => at.getTime() < atMs)
    return sample === undefined || atMs - sample.at.getTime() > SAMPLE_MS ? null : read(sample)
  })
}

/** Maintenance looks every five minutes by default, and may be late. */
const SAMPLE_MS = 7 * MINUTE_MS

/** Each queue is counted up to 10,000. */
function messages(count: number): string {
  return count >= 10_000 ? '10,000+' : count.toLocaleString('en-US')
}
