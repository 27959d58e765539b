import type { CustomSeriesOption, CustomSeriesRenderItem } from 'echarts'
import type { Summary } from '../statistics.ts'
import { type Chart, colourOf, FONT, GRID, INK, SLUICE, TITLE_HEIGHT, titled } from './chart-theme.ts'
import type { CellResult, EntryResult } from './result.ts'
import { format } from './table.ts'

const ROW_HEIGHT = 30
const FOOT_HEIGHT = 34

/** A line of the chart: a bar, or the name of the case whose bars follow. */
type Row = { readonly heading: string } | { readonly label: string; readonly entry: EntryResult }

/** A bar per contestant, under a heading per case if there are several of both. */
export function barsOf(result: CellResult): Chart {
  const rows = rowsOf(result.entries)
  return {
    height: TITLE_HEIGHT + rows.length * ROW_HEIGHT + FOOT_HEIGHT,
    option: {
      ...titled(result, ', whiskers: least to most'),
      grid: { left: 246, right: 156, top: TITLE_HEIGHT, bottom: FOOT_HEIGHT },
      xAxis: {
        type: 'value',
        axisLabel: { color: INK, fontFamily: FONT },
        splitLine: { lineStyle: { color: GRID } },
      },
      yAxis: {
        type: 'category',
        inverse: true,
        data: rows.map((row) => ('heading' in row ? row.heading : row.label)),
        axisTick: { show: false },
        axisLine: { lineStyle: { color: GRID } },
        axisLabel: {
          fontFamily: FONT,
          interval: 0,
          width: 236,
          overflow: 'truncate',
          formatter: (value: string, index: number) => styled(value, rows[index]),
          rich: {
            sluice: { color: SLUICE, fontWeight: 'bold' },
            heading: { color: INK, fontWeight: 'bold' },
            other: { color: INK },
          },
        },
      },
      series: [barSeries(result, rows)],
    },
  }
}

function rowsOf(entries: readonly EntryResult[]): readonly Row[] {
  const cases = [...new Set(entries.map((entry) => entry.case))]
  const contestants = new Set(entries.map((entry) => entry.contestant))
  return cases.flatMap((name): Row[] => {
    const found = entries.filter((entry) => entry.case === name)
    if (contestants.size === 1) return found.map((entry) => ({ label: name, entry }))
    const bars = found.map((entry) => ({ label: entry.title, entry }))
    return cases.length === 1 ? bars : [{ heading: name }, ...bars]
  })
}

function styled(label: string, row: Row | undefined): string {
  if (row === undefined || 'heading' in row) return `{heading|${label}}`
  return `{${row.entry.contestant === 'sluice' ? 'sluice' : 'other'}|${label}}`
}

function summaryOf({ metric }: CellResult, entry: EntryResult): Summary | undefined {
  return entry.metrics[metric.name]
}

/** Bar, whisker and text are drawn by ourselves, so that the text stands behind the whisker. */
function barSeries(result: CellResult, rows: readonly Row[]): CustomSeriesOption {
  const renderItem: CustomSeriesRenderItem = ({ dataIndex }, api) => {
    const row = rows[dataIndex]
    if (row === undefined || 'heading' in row) return { type: 'group', children: [] }
    const value = summaryOf(result, row.entry)
    const xOf = (number: number): number => api.coord([number, dataIndex])[0] ?? 0
    const [, y = 0] = api.coord([0, dataIndex])
    const isSluice = row.entry.contestant === 'sluice'
    const text = {
      type: 'text',
      style: {
        text: value === undefined ? 'failed' : textOf(value, row.entry),
        x: xOf(value?.max ?? 0) + 8,
        y,
        verticalAlign: 'middle',
        fill: isSluice ? SLUICE : INK,
        font: `${isSluice ? 'bold ' : ''}12px ${FONT}`,
      },
    } as const
    if (value === undefined) return { type: 'group', children: [text] }
    const bar = {
      type: 'rect',
      shape: { x: xOf(0), y: y - 9, width: Math.max(1, xOf(value.median) - xOf(0)), height: 18, r: 2 },
      style: { fill: colourOf(row.entry.contestant) },
    } as const
    return { type: 'group', children: [bar, ...whisker(xOf(value.min), xOf(value.max), y), text] }
  }
  return { type: 'custom', renderItem, data: rows.map((row, index) => [mostOf(result, row), index]) }
}

/** So that the axis reaches as far as the whiskers. */
function mostOf(result: CellResult, row: Row): number {
  return 'heading' in row ? 0 : (summaryOf(result, row.entry)?.max ?? 0)
}

function whisker(from: number, to: number, y: number) {
  const line = (x1: number, y1: number, x2: number, y2: number) =>
    ({ type: 'line', shape: { x1, y1, x2, y2 }, style: { stroke: INK, lineWidth: 1.25 } }) as const
  if (to - from < 1) return []
  return [line(from, y, to, y), line(from, y - 4, from, y + 4), line(to, y - 4, to, y + 4)]
}

function textOf(value: Summary, { sluiceOver }: EntryResult): string {
  const ratio = sluiceOver === undefined ? '' : `   Sluice ${format(sluiceOver.median)} ×`
  return `${format(value.median)}${ratio}`
}
