import * as echarts from 'echarts'
import { barsOf } from './chart-bars.ts'
import { linesOf } from './chart-lines.ts'
import type { Chart } from './chart-theme.ts'
import type { CellResult } from './result.ts'

/** A cell's charts as SVG, for a light or a dark page, by the names of their files. */
export function chartsOf(result: CellResult): Readonly<Record<string, string>> {
  const { name, pictures = {} } = result
  const more = Object.keys(pictures).map((picture) => [`${name}-${picture}`, drawn(pictureOf(result, picture))])
  return { [name]: drawn(chartOf(result)), ...Object.fromEntries(more) }
}

/** Over time where there is a series and one case, else bars. */
function chartOf(result: CellResult): Chart {
  const hasSeries = result.entries.some(({ samples }) => samples.some((sample) => 'series' in sample))
  const cases = new Set(result.entries.map((entry) => entry.case))
  return hasSeries && cases.size === 1 ? linesOf(result) : barsOf(result)
}

/** What else the samples have over time. */
function pictureOf(result: CellResult, picture: string): Chart {
  const entries = result.entries.map((entry) => ({
    ...entry,
    samples: entry.samples.flatMap((sample) => {
      const series = 'pictures' in sample ? sample.pictures?.[picture] : undefined
      return series === undefined ? [] : [{ metrics: {}, series }]
    }),
  }))
  const series = result.pictures?.[picture]
  // Beside the rate they are what it costs.
  return linesOf({ ...result, metric: { ...result.metric, better: 'less' }, entries, ...(series && { series }) })
}

function drawn({ height, option }: Chart): string {
  const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, width: 880, height })
  try {
    chart.setOption(option)
    return chart.renderToSVGString()
  } finally {
    chart.dispose()
  }
}
