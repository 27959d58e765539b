import * as echarts from 'echarts'
import { barsOf } from './chart-bars.ts'
import { linesOf } from './chart-lines.ts'
import type { CellResult } from './result.ts'

/** A cell's chart as SVG, for a light or a dark page: over time where there is a series and one case, else bars. */
export function chartOf(result: CellResult): string {
  const hasSeries = result.entries.some(({ samples }) => samples.some((sample) => 'series' in sample))
  const cases = new Set(result.entries.map((entry) => entry.case))
  const { height, option } = hasSeries && cases.size === 1 ? linesOf(result) : barsOf(result)
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 880, height })
  try {
    chart.setOption(option)
    return chart.renderToSVGString()
  } finally {
    chart.dispose()
  }
}
