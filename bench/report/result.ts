import type { Cell, Goal, Metric, Place } from '../cell.ts'
import type { Contestant } from '../contestant.ts'
import type { Entry } from '../run/rounds.ts'
import type { Sample } from '../run/sample.ts'
import { type Summary, summarise } from '../statistics.ts'
import type { Environment } from './environment.ts'

/** All that is known of a cell after a run: the content of its file. */
export interface CellResult extends Pick<Cell, 'name' | 'title' | 'measures' | 'metric' | 'without'> {
  readonly environment: Environment
  readonly rounds: number
  readonly entries: readonly EntryResult[]
  readonly goals: readonly GoalResult[]
}

export interface EntryResult extends Pick<Contestant, 'guarantee'> {
  readonly contestant: string
  readonly title: string
  /** How it was set up, by what it was to do. */
  readonly configuration: Readonly<Record<string, string>>
  readonly case: string
  /** Over the rounds in which it did not fail. */
  readonly metrics: Readonly<Record<string, Summary>>
  readonly samples: readonly Sample[]
}

export interface GoalResult extends Goal {
  readonly text: string
  /** Of the numbers, or of the ratios within one round; undefined if there is no round that has them. */
  readonly value: Summary | undefined
  readonly met: boolean | undefined
}

export function toResult(
  cell: Cell,
  entries: readonly Entry[],
  run: { readonly environment: Environment; readonly rounds: number },
): CellResult {
  const { name, title, measures, metric, without = {} } = cell
  return {
    name,
    title,
    measures,
    metric,
    without,
    ...run,
    entries: entries.map(toEntryResult),
    goals: cell.goals.map((goal) => toGoalResult(goal, metric, entries)),
  }
}

function toEntryResult({ contestant, case: name, samples }: Entry): EntryResult {
  const good = samples.flatMap((sample) => ('metrics' in sample ? [sample.metrics] : []))
  const names = Object.keys(good[0] ?? {})
  return {
    contestant: contestant.name,
    title: contestant.title,
    guarantee: contestant.guarantee,
    configuration: configurationOf(contestant),
    case: name,
    metrics: Object.fromEntries(
      names.map((metric) => [metric, summarise(good.flatMap((metrics) => metrics[metric] ?? []))]),
    ),
    samples,
  }
}

function configurationOf({ drains, consumes, listens, enqueues, idles }: Contestant): EntryResult['configuration'] {
  const capabilities = Object.entries({ drains, consumes, listens, enqueues, idles })
  return Object.fromEntries(capabilities.flatMap(([name, found]) => (found ? [[name, found.configuration]] : [])))
}

function toGoalResult(goal: Goal, metric: Metric, entries: readonly Entry[]): GoalResult {
  const numerators = valuesAt(goal.of, metric, entries)
  const denominators = goal.over === undefined ? undefined : valuesAt(goal.over, metric, entries)
  const values = numerators.flatMap((value, round) => {
    const divisor = denominators === undefined ? 1 : denominators[round]
    return value === undefined || divisor === undefined ? [] : [value / divisor]
  })
  const summary = values.length === 0 ? undefined : summarise(values)
  return { ...goal, text: goalText(goal, metric), value: summary, met: summary && isMet(goal, summary.median) }
}

function isMet(
  { atLeast = Number.NEGATIVE_INFINITY, atMost = Number.POSITIVE_INFINITY }: Goal,
  value: number,
): boolean {
  return value >= atLeast && value <= atMost
}

/** The place's number in each round; undefined where it failed. */
function valuesAt(place: Place, metric: Metric, entries: readonly Entry[]): readonly (number | undefined)[] {
  const { contestant, case: name = '', metric: named = metric.name } = place
  const found = entries.find((entry) => entry.contestant.name === contestant && entry.case === name)
  return (found?.samples ?? []).map((sample) => ('metrics' in sample ? sample.metrics[named] : undefined))
}

function goalText({ of, over, atLeast, atMost }: Goal, metric: Metric): string {
  const bounds = [
    ...(atLeast === undefined ? [] : [`≥ ${atLeast}`]),
    ...(atMost === undefined ? [] : [`≤ ${atMost}`]),
  ].join(' and ')
  const unit = over === undefined ? '' : ` × ${placeText(over, metric)}`
  return `${placeText(of, metric)} ${bounds}${unit}`
}

function placeText({ contestant, case: name, metric: named }: Place, metric: Metric): string {
  const details = [name, named === metric.name ? undefined : named].filter(Boolean)
  return details.length === 0 ? contestant : `${contestant} (${details.join(', ')})`
}
