import { type Html, html, NOTHING } from './html.ts'

/** A line of a chart, or its columns. */
export interface Series {
  readonly name: string
  /** Of the style. */
  readonly kind: 'main' | 'second'
  /** One for each step, the oldest first. Null: nothing is known. */
  readonly values: readonly (number | null)[]
}

export interface Chart {
  readonly title: string
  readonly shape: 'columns' | 'lines'
  readonly series: readonly Series[]
  /** A value in words. */
  readonly say: (value: number) => string
}

/**
 * Values over time, drawn on the server: no script, and the same for all who look. Its name says the numbers, for those who
 * do not see it.
 */
export function chart({ title, shape, series, say }: Chart): Html {
  const known = series.flatMap(({ values }) => values.filter((value) => value !== null))
  const most = Math.max(0, ...known)
  const words = known.length === 0 ? 'nothing in this time' : series.map((one) => spoken(one, say)).join('; ')
  const draw = shape === 'columns' ? columns : lines
  return html`<figure class="chart">
    <figcaption>${title}${series.length > 1 ? series.map(({ name, kind }) => html` <span class="${`key key-${kind}`}">${name}</span>`) : NOTHING}</figcaption>
    <span class="chart-most">${known.length === 0 ? '–' : say(most)}</span>
    <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${`${title}: ${words}`}">${
      most > 0 ? series.map((one) => draw(one, most)) : NOTHING
    }</svg>
    <span class="chart-from">an hour ago</span> <span class="chart-to">now</span>
  </figure>`
}

const WIDTH = 600
const HEIGHT = 100
/** Room at the top for half the width of a line. */
const STROKE = 2

/** 'p99: 40ms now, 80ms at most' */
function spoken({ name, values }: Series, say: Chart['say']): string {
  const known = values.filter((value) => value !== null)
  const last = known.at(-1)
  return last === undefined ? `${name}: nothing` : `${name}: ${say(last)} last, ${say(Math.max(...known))} at most`
}

function columns({ kind, values }: Series, most: number): Html {
  const width = WIDTH / values.length
  const shapes = values.map((value, at) => {
    if (value === null || value <= 0) return NOTHING
    const height = (value / most) * HEIGHT
    return html`<rect x="${fixed(at * width)}" y="${fixed(HEIGHT - height)}" width="${fixed(width * 0.8)}" height="${fixed(height)}"/>`
  })
  return html`<g class="${`fill-${kind}`}">${shapes}</g>`
}

function lines({ kind, values }: Series, most: number): Html {
  const width = WIDTH / values.length
  const runs = runsOf(values).map((run) => {
    const points = run.map(
      ([at, value]) => `${fixed((at + 0.5) * width)},${fixed(HEIGHT - (value / most) * (HEIGHT - STROKE))}`,
    )
    // A single point has no length: a round end shows it.
    return html`<polyline points="${[...points, ...(points.length === 1 ? points : [])].join(' ')}"/>`
  })
  return html`<g class="${`line-${kind}`}">${runs}</g>`
}

/** Values without a gap between them. */
function runsOf(values: Series['values']): readonly (readonly (readonly [number, number])[])[] {
  const runs: [number, number][][] = []
  for (const [at, value] of values.entries()) {
    if (value === null) continue
    if (at > 0 && values[at - 1] !== null) runs.at(-1)?.push([at, value])
    else runs.push([[at, value]])
  }
  return runs
}

function fixed(value: number): string {
  return value.toFixed(1)
}
