import type { BacklogSample } from 'sluice'
import { type Chart, chart, type Series } from './chart.ts'
import { type Html, html } from './html.ts'
import { firstMinute, MINUTE_MS, MINUTES } from './last-hour.ts'
import { MOST_COUNTED } from './parts.ts'
import { durationWords, number } from './text.ts'

/** What queues had to do in the last hour, and what groups had to read: all of the samples together. */
export function backlogCharts(samples: readonly BacklogSample[], now: Date): Html {
  const minutes = byMinute(together(samples), now)
  const isOfGroup = samples.some(({ unread }) => unread > 0)
  const sampled = (
    name: string,
    kind: Series['kind'],
    say: Series['say'],
    read: (total: BacklogTotal) => number,
  ): Series => ({ name, kind, say, values: minutes.map((total) => (total === undefined ? null : read(total))) })
  const dueText: Series['say'] = (count, minute) => `${number(count)}${minutes[minute]?.isMore ? '+' : ''}`
  const charts: readonly Chart[] = [
    {
      title: 'Backlog',
      shape: 'lines',
      series: [
        sampled('due', 'main', dueText, ({ due }) => due),
        ...(isOfGroup ? [sampled('unread', 'second', number, ({ unread }) => unread)] : []),
      ],
    },
    {
      title: 'Lag',
      shape: 'lines',
      series: [sampled('oldest', 'main', durationWords, ({ oldestMs }) => oldestMs)],
    },
  ]
  return html`${charts.map(chart)}`
}

/** All queues and groups of one sample. */
interface BacklogTotal {
  readonly at: number
  readonly due: number
  /** Of a queue more was due than is counted. */
  readonly isMore: boolean
  readonly unread: number
  readonly oldestMs: number
}

/** In the order of time. */
function together(samples: readonly BacklogSample[]): readonly BacklogTotal[] {
  const byTime = Map.groupBy(samples, ({ at }) => at.getTime())
  return [...byTime]
    .toSorted(([a], [b]) => a - b)
    .map(([at, all]) => ({
      at,
      due: all.reduce((sum, { due }) => sum + due, 0),
      isMore: all.some(({ due }) => due >= MOST_COUNTED),
      unread: all.reduce((sum, { unread }) => sum + unread, 0),
      oldestMs: Math.max(...all.flatMap((one) => [one.oldestDueAgeMs ?? 0, one.oldestUnreadAgeMs ?? 0])),
    }))
}

/** One for each minute: the last sample before its end, until it is too old. */
function byMinute(totals: readonly BacklogTotal[], now: Date): readonly (BacklogTotal | undefined)[] {
  const first = firstMinute(now)
  return Array.from({ length: MINUTES }, (_, minute) => {
    const end = first + (minute + 1) * MINUTE_MS
    const total = totals.findLast(({ at }) => at < end)
    return total === undefined || end - total.at > SAMPLE_MS ? undefined : total
  })
}

/** Maintenance looks every five minutes by default, and may be late. */
const SAMPLE_MS = 7 * MINUTE_MS
