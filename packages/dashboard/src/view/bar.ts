import { type Html, html } from './html.ts'
import { number } from './text.ts'

/** A part of a bar. */
export interface Part {
  readonly name: string
  readonly value: number
  /** Of the style. */
  readonly kind: 'ready' | 'flight' | 'later' | 'held' | 'dead'
}

/** The shares of a whole as a bar, with its numbers as its name. */
export function bar(parts: readonly Part[]): Html {
  const there = parts.filter(({ value }) => value > 0)
  const sum = there.reduce((total, { value }) => total + value, 0)
  const words = there.map(({ name, value }) => `${number(value)} ${name}`).join(', ')
  const starts = there.map((_, at) => there.slice(0, at).reduce((total, { value }) => total + value, 0))
  const shapes = there.map(
    ({ value, kind }, at) =>
      html`<rect class="${`part-${kind}`}" x="${share(starts[at] ?? 0, sum)}" y="0" width="${share(value, sum)}" height="8"/>`,
  )
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label="${words || 'nothing'}">
    <rect class="part-none" x="0" y="0" width="100" height="8"/>${shapes}</svg>`
}

function share(value: number, sum: number): string {
  return ((value / sum) * 100).toFixed(2)
}
