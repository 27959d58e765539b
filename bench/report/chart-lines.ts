import type { LineSeriesOption } from 'echarts'
import { percentile } from '../statistics.ts'
import { type Chart, colourOf, FONT, GRID, INK, TITLE_HEIGHT, titled } from './chart-theme.ts'
import type { CellResult, EntryResult } from './result.ts'

const DASHES = ['solid', 'dashed', 'dotted'] as const

/** A line per contestant: at each point the median over the rounds that came so far. */
export function linesOf(result: CellResult): Chart {
  const lines = result.entries
    .map((entry) => ({ entry, points: pointsOf(entry) }))
    .filter(({ points }) => points.length)
  const longest = Math.max(...lines.map(({ points }) => points.length))
  const { series: described } = result
  return {
    height: 400,
    option: {
      ...titled({ ...result, metric: { ...result.metric, unit: described?.y ?? result.metric.unit } }),
      grid: { left: 64, right: 270, top: TITLE_HEIGHT + 8, bottom: 48 },
      xAxis: {
        type: 'category',
        data: Array.from({ length: longest }, (_, index) => index + 1),
        name: described?.x ?? '',
        nameLocation: 'middle',
        nameGap: 28,
        nameTextStyle: { color: INK, fontFamily: FONT },
        axisLabel: { color: INK, fontFamily: FONT },
        axisLine: { lineStyle: { color: GRID } },
      },
      yAxis: {
        type: described?.scale ?? 'value',
        axisLabel: { color: INK, fontFamily: FONT },
        splitLine: { lineStyle: { color: GRID } },
      },
      series: lines.map(({ entry, points }, index) => lineSeries(entry, points, index)),
    },
  }
}

function lineSeries(entry: EntryResult, points: readonly number[], index: number): LineSeriesOption {
  const isSluice = entry.contestant === 'sluice'
  const color = colourOf(entry.contestant)
  return {
    type: 'line',
    name: entry.title,
    data: [...points],
    symbol: points.length > 20 ? 'none' : 'circle',
    symbolSize: 5,
    lineStyle: {
      color,
      width: isSluice ? 3.5 : 2,
      type: isSluice ? 'solid' : (DASHES[index % DASHES.length] ?? 'solid'),
    },
    itemStyle: { color },
    z: isSluice ? 5 : 2,
    endLabel: {
      show: true,
      formatter: entry.title,
      color: isSluice ? color : INK,
      fontWeight: isSluice ? 'bold' : 'normal',
      fontFamily: FONT,
      distance: 8,
    },
    labelLayout: { moveOverlap: 'shiftY' },
  }
}

function pointsOf({ samples }: EntryResult): readonly number[] {
  const series = samples.flatMap((sample) => ('series' in sample && sample.series ? [sample.series] : []))
  const longest = Math.max(0, ...series.map((values) => values.length))
  return Array.from({ length: longest }, (_, index) =>
    percentile(
      series.flatMap((values) => values[index] ?? []),
      50,
    ),
  )
}
