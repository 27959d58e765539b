import type { Distribution } from '../statistics/histogram.ts'

export type Labels = Readonly<Record<string, string>>

/** One line of a metric: what it is about, and its value. */
export type Sample = readonly [labels: Labels, value: number]

/** A counter or a gauge with its comments. Nothing without samples. */
export function family(name: string, type: 'counter' | 'gauge', help: string, samples: readonly Sample[]): string {
  return familyOf(
    name,
    type,
    help,
    samples.map(([labels, value]) => lineOf(name, labels, value)),
  )
}

/**
 * A histogram with its comments.
 *
 * @param perUnit what the sums and bounds are divided by: 1,000 for milliseconds that are shown as seconds
 */
export function histogramFamily(
  name: string,
  help: string,
  all: readonly (readonly [Labels, Distribution])[],
  perUnit: number,
): string {
  const lines = all.flatMap(([labels, { count, sum, buckets }]) => [
    ...buckets.map(([atMost, below]) => lineOf(`${name}_bucket`, { ...labels, le: String(atMost / perUnit) }, below)),
    lineOf(`${name}_bucket`, { ...labels, le: '+Inf' }, count),
    lineOf(`${name}_sum`, labels, sum / perUnit),
    lineOf(`${name}_count`, labels, count),
  ])
  return familyOf(name, 'histogram', help, lines)
}

function familyOf(name: string, type: string, help: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function lineOf(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`)
  return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
}

/** The name of a queue may have any character. */
function escaped(text: string): string {
  return text.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
