import { type Html, html, NOTHING } from './html.ts'

/** A line of a chart, or its columns. */
export interface Series {
  readonly name: string
  /** Of the style. */
  readonly kind: 'main' | 'second'
  /** One for each step, the oldest first. Null: nothing is known. */
  readonly values: readonly (number | null)[]
  /** The value of a step in words. */
  readonly say: (value: number, step: number) => string
}

export interface Chart {
  readonly title: string
  readonly shape: 'columns' | 'lines'
  readonly series: readonly Series[]
}

/**
 * Values over time, drawn on the server: no script, and the same for all who look. Its name says the numbers, for those who
 * do not see it.
 */
export function chart({ title, shape, series }: Chart): Html {
  const [highest, ...others] = series.flatMap((one) => highestOf(one) ?? [])
  const { value: most, words: mostWords } = others.reduce((a, b) => (b.value > a.value ? b : a), highest ?? NO_VALUE)
  const words = highest === undefined ? 'nothing in this time' : series.map(spoken).join('; ')
  const draw = shape === 'columns' ? columns : lines
  return html`<figure class="chart">
    <figcaption>${title}${series.length > 1 ? series.map(({ name, kind }) => html` <span class="${`key key-${kind}`}">${name}</span>`) : NOTHING}</figcaption>
    <span class="chart-most">${mostWords}</span>
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

interface Said {
  readonly value: number
  readonly words: string
}

const NO_VALUE: Said = { value: 0, words: '–' }

/** The first of its highest values; undefined: nothing is known. */
function highestOf({ values, say }: Series): Said | undefined {
  const value = Math.max(...values.filter((one) => one !== null))
  const step = values.indexOf(value)
  return step === -1 ? undefined : { value, words: say(value, step) }
}

/** 'p99: 40ms last, 80ms at most' */
function spoken(series: Series): string {
  const { name, values, say } = series
  const step = values.findLastIndex((value) => value !== null)
  const last = values[step] ?? null
  return last === null ? `${name}: nothing` : `${name}: ${say(last, step)} last, ${highestOf(series)?.words} at most`
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
