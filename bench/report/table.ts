import Table from 'cli-table3'
import type { Summary } from '../statistics.ts'
import type { CellResult, EntryResult, GoalResult } from './result.ts'

/** A cell's numbers and goals, for a terminal. */
export function tableOf(result: CellResult): string {
  const { title, name, measures, environment, entries, goals } = result
  const metrics = [...new Set(entries.flatMap((entry) => Object.keys(entry.metrics)))]
  const table = new Table({
    head: ['', ...metrics.map((metric) => unitOf(result, metric))],
    colAligns: ['left', ...metrics.map(() => 'right' as const)],
    style: { head: [], border: [] },
  })
  for (const entry of entries) table.push([labelOf(entry), ...metrics.map((metric) => cellOf(entry, metric))])
  const described = environment.scale === 'quick' ? `${measures} (quick: with far fewer messages)` : measures
  return [`\n${title} (${name})`, described, table.toString(), ...goals.map(goalLine)].join('\n')
}

/** A number with three significant digits or none behind the point. */
export function format(value: number): string {
  if (!Number.isFinite(value)) return '-'
  const digits = Math.abs(value) >= 100 ? 0 : 2
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
}

/** The case's name, or the contestant's title with it. */
function labelOf({ title, case: name }: Pick<EntryResult, 'title' | 'case'>): string {
  return name === '' ? title : `${title}: ${name}`
}

function unitOf({ metric }: CellResult, name: string): string {
  return name === metric.name ? metric.unit : name
}

function cellOf({ metrics, samples }: EntryResult, metric: string): string {
  const found = metrics[metric]
  const failed = samples.filter((sample) => 'failed' in sample)
  const failure =
    failed.length === 0 ? '' : `failed ${failed.length}×: ${failed[0]?.failed.split('\n')[0]?.slice(0, 60)}`
  if (found === undefined) return failure
  return [`${format(found.median)}  (${spread(found)})`, failure].filter(Boolean).join('\n')
}

function spread({ min, max }: Summary): string {
  return `${format(min)} – ${format(max)}`
}

function goalLine({ text, value, met }: GoalResult): string {
  if (value === undefined) return `  ?  ${text}: not measured`
  return `  ${met ? '✓' : '✗'}  ${text}: ${format(value.median)} (${spread(value)})`
}
